//! Bounds of functions from `.eh_frame`, which stripped files keep.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, Pointer, UnwindSection};

use crate::image::{Exceptions, Function, Region};

/// The functions that the unwind entries describe, up to the first entry that
/// cannot be read.
pub(crate) fn functions(frames: &Region<'_>) -> Vec<Function> {
    let section = EhFrame::new(frames.bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(frames.address);
    let mut entries = section.entries(&bases);
    let mut found = Vec::new();
    let mut last_cie = None;
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let parsed = partial.parse(|section, bases, offset| match &last_cie {
            Some((known, cie)) if *known == offset => Ok(gimli::CommonInformationEntry::clone(cie)),
            _ => {
                let cie = section.cie_from_offset(bases, offset)?;
                last_cie = Some((offset, cie.clone()));
                Ok(cie)
            }
        });
        let Ok(fde) = parsed else { continue };
        let start = fde.initial_address();
        let Some(end) = start.checked_add(fde.len()) else {
            continue;
        };
        let exceptions = match fde.lsda() {
            None => Exceptions::None,
            Some(Pointer::Direct(address)) => Exceptions::Table(address),
            Some(Pointer::Indirect(_)) => Exceptions::Unknown,
        };
        found.push(Function { start, end, exceptions });
    }
    found
}
