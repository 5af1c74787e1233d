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
        let Some(end) = fde.initial_address().checked_add(fde.len()) else {
            continue;
        };
        // Unwinders look for the byte ahead of where a frame returns to, so such an entry begins with it.
        let is_signal_return = fde.is_signal_trampoline();
        let start = fde.initial_address().saturating_add(u64::from(is_signal_return));
        let exceptions = match fde.lsda() {
            None => Exceptions::None,
            Some(Pointer::Direct(address)) => Exceptions::Table(address),
            Some(Pointer::Indirect(_)) => Exceptions::Unknown,
        };
        found.push(Function { start, end, exceptions, is_signal_return });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries with addresses of four bytes, all of which have this augmentation.
    fn frames(augmentation: &[u8], entries: &[(u32, u32)]) -> Vec<u8> {
        let record = |body: Vec<u8>| {
            let mut body = body;
            body.resize(body.len().next_multiple_of(4), 0);
            [&(body.len() as u32).to_le_bytes()[..], &body].concat()
        };
        let header = [&[0, 0, 0, 0, 1], augmentation, &[0, 1, 0x78, 16, 1, 3]].concat();
        let mut bytes = record(header);
        for (start, length) in entries {
            let back = bytes.len() as u32 + 4;
            let entry = [back, *start, *length].map(u32::to_le_bytes).concat();
            bytes.extend(record([entry, vec![0]].concat()));
        }
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn entries_of_signal_returns_begin_a_byte_early() {
        let bounds = |augmentation: &[u8]| {
            let bytes = frames(augmentation, &[(0x100f, 10), (0x2000, 16)]);
            let found = functions(&Region { address: 0x5000, offset: 0x5000, bytes: &bytes });
            found.iter().map(|it| (it.start, it.end, it.is_signal_return)).collect::<Vec<_>>()
        };
        assert_eq!(bounds(b"zRS"), [(0x1010, 0x1019, true), (0x2001, 0x2010, true)]);
        assert_eq!(bounds(b"zR"), [(0x100f, 0x1019, false), (0x2000, 0x2010, false)]);
    }
}
