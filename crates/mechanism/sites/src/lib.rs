//! Where a file's code enters the kernel or reads something that differs from
//! run to run, and how each such site is rewritten into a jump.
//!
//! The result depends on the file's content alone, so it is computed once for
//! each content, outside of the traced program (docs/adr/0001). The runtime
//! applies a recipe when a site has trapped for the first time; it neither
//! decodes nor decides.
//!
//! Invariant: a recipe never covers an instruction, other than its first, that
//! anything known can jump to. Where that cannot be shown the site has no
//! recipe and goes on trapping. Known are: direct branches and addresses taken
//! relative to the instruction pointer, anywhere in the file; addresses in
//! data, relocations and symbols; jump tables of 32-bit offsets. Where
//! exceptions enter a function, its exception table says; without one that can be read, no more
//! than one instruction is covered. In what GHC made, where a
//! table stands ahead of each function, nothing that may read time is rewritten unseen.
//!
//! Deliberately absent: following values through registers, rewriting code that
//! is made at run time, 32-bit code.
#![forbid(unsafe_code)]

mod cache;
mod candidates;
mod chain;
mod cover;
mod entries;
mod idle_loops;
mod image;
mod landing_pads;
mod serial;
mod targets;
mod unwind;
mod vsyscalls;
mod waits;

use lane_protocol::{Recipe, site_kind};

pub use cache::analyse_cached;
pub use entries::{Beginning, NotMovable, Symbols, beginnings, find_functions};
pub use serial::{FORMAT_VERSION, from_bytes, to_bytes};

use candidates::Pattern;
use chain::CodeMap;
use cover::Site;
use image::Image;
use targets::Watch;

const PAGE_BYTES: u64 = 4096;

/// What is known of a file's sites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Sorted by `site_offset`. Sites that cannot be rewritten are in the list
    /// with `before` and `after` 0.
    pub recipes: Vec<Recipe>,
    /// Parts of the file could not be looked at: what is there may read time.
    pub unresolved_time_sites: bool,
}

/// The loops without `pause` whose rounds count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loops {
    /// None: what is recorded with chaos or forced switches, which come between any two of their instructions, and traces
    /// of formats before 12.
    None,
    /// Those that another thread ends.
    Waiting,
    /// Those that end themselves by counting, too: traces of the formats 12 and 13.
    Counting,
}

impl Analysis {
    /// Without the loops whose rounds do not count.
    pub fn keep_loops(&mut self, loops: Loops) {
        self.recipes.retain_mut(|recipe| match recipe.kind {
            site_kind::IDLE_LOOP => loops != Loops::None,
            site_kind::COUNTING_LOOP => {
                recipe.kind = site_kind::IDLE_LOOP;
                loops == Loops::Counting
            }
            _ => true,
        });
    }
}

/// Finds the sites of an ELF file for x86-64; nothing in any other content, and
/// nothing beyond a file offset of 4 GiB.
pub fn analyse(file: &[u8]) -> Analysis {
    let Some(mut image) = Image::parse(file) else {
        return Analysis::default();
    };
    if image.is_partial {
        // What is not seen may hold sites, or addresses that forbid a recipe.
        return Analysis { recipes: Vec::new(), unresolved_time_sites: true };
    }
    let candidates = candidates::find(&image.code);
    let names_vsyscalls = vsyscalls::are_named(&image).then(|| cover::names_vsyscalls(&image)).flatten();
    if candidates.is_empty() {
        return Analysis { recipes: names_vsyscalls.into_iter().collect(), unresolved_time_sites: false };
    }
    image.read_functions();
    let mut map = CodeMap::new(&image);
    let (sites, unsure) = confirm(&mut map, &candidates);
    let covers: Vec<_> = sites.iter().map(|site| cover::options(&image, site)).collect();
    let waits = waits::find(&mut map, &candidates);
    let mut watch = Watch::new(sites.iter().zip(&covers).chain(waits.iter().map(waits::Wait::parts)));
    targets::mark(&image, &mut map, &mut watch);
    let mut recipes = cover::choose(&image, &sites, &covers, &watch);
    recipes.extend(waits::choose(&image, &waits, &recipes, &watch));
    let places = unsure.len();
    recipes.extend(unsure.into_iter().filter_map(|address| cover::unsure(&image, address)));
    let unresolved_time_sites =
        recipes.iter().filter(|recipe| recipe.kind == site_kind::UNSURE).count() < places;
    let sets_gs = candidates.iter().filter(|candidate| candidate.pattern == Pattern::SetsGs);
    recipes.extend(sets_gs.filter_map(|candidate| cover::sets_gs(&image, candidate.address)));
    recipes.extend(names_vsyscalls);
    recipes.sort_by_key(|recipe| recipe.site_offset);
    recipes.dedup_by_key(|recipe| recipe.site_offset);
    Analysis { recipes, unresolved_time_sites }
}

/// Tells real instructions from bytes that look like one. Where it cannot be told
/// whether time is read: the first such place of each page.
fn confirm(map: &mut CodeMap<'_, '_>, candidates: &[candidates::Candidate]) -> (Vec<Site>, Vec<u64>) {
    let mut sites: Vec<Site> = Vec::new();
    let mut unsure: Vec<u64> = Vec::new();
    let has_tables = map.image.has_tables_in_code();
    let is_read = |pattern: Pattern| pattern != Pattern::SetsGs && !pattern.is_waiting();
    for candidate in candidates.iter().filter(|candidate| is_read(candidate.pattern)) {
        let chain = map
            .chain_at(candidate.address)
            // Data that looks like an instruction is not what a function's table may become.
            .filter(|chain| !has_tables || candidate.pattern == Pattern::Syscall || chain.starts.is_empty());
        match chain {
            Some(chain) => {
                let Some(site) = Site::from_chain(map.image, chain) else {
                    continue;
                };
                if sites.last().is_none_or(|last| last.address != site.address) {
                    sites.push(site);
                }
            }
            None if candidate.pattern == Pattern::Time => {
                let page = candidate.address / PAGE_BYTES;
                if unsure.last().is_none_or(|last| last / PAGE_BYTES != page) {
                    unsure.push(candidate.address);
                }
            }
            None => {}
        }
    }
    (sites, unsure)
}

/// Whether a kind of site reads time or chance rather than entering the kernel.
pub fn is_time_kind(kind: u8) -> bool {
    kind != site_kind::SYSCALL && !site_kind::is_spin(kind)
}
