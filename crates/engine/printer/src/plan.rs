//! Where breakpoints are set in a process, and what each records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use injector::{Mapping, read_maps};
use lane_protocol::bytecode::{PROGRAMS_END, breakpoint_kind};
use timeline::Stops;
use trace_store::{TraceReader, hash_hex};

use crate::calls;
use crate::code::Code;
use crate::compile::{Compiler, Fail};
use crate::debug_file::{DebugFile, DebugFiles};
use crate::error::PrintError;
use crate::functions::{self, Function};
use crate::location::Spot;
use crate::parse::Named;
use crate::recorded::Image;
use crate::shape::{self, Shape};
use crate::{lines, scope};

/// What is to be printed.
#[derive(Debug, Clone)]
pub enum Wanted {
    Line { file: PathBuf, line: u64, expressions: Vec<Named> },
    Calls { function: String },
}

/// A place of the program at which something is recorded.
pub(crate) struct Site {
    pub file: Arc<DebugFile>,
    /// What is recorded, with the names that it is shown under.
    pub shapes: Vec<(String, Shape)>,
    /// The function, if its calls are wanted, and the instructions that leave it.
    pub function: Option<Function>,
    exits: Vec<u64>,
    /// In the file.
    address: u64,
    /// What is to be added to addresses of the file.
    pub bias: u64,
    /// Block of programs.
    block: Vec<u8>,
}

/// What a breakpoint of a process is for.
pub(crate) enum Purpose {
    Site(Arc<Site>),
    /// Calls return there.
    Return,
    /// Calls leave there.
    Exit,
}

/// The breakpoints of a process, in the order in which records number them.
#[derive(Default)]
pub(crate) struct Plan {
    pub stops: Stops,
    pub purposes: Vec<Purpose>,
}

/// Where in the files of a trace what is wanted lies.
pub(crate) struct Planner {
    wanted: Wanted,
    condition: Option<Named>,
    /// By the paths of kept files: addresses in the file.
    places: BTreeMap<PathBuf, (Arc<DebugFile>, Places)>,
    /// What was compiled for a file at its place in memory.
    compiled: HashMap<(PathBuf, u64), Vec<Arc<Site>>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

enum Places {
    Line(BTreeSet<u64>),
    Functions(Vec<Function>),
}

impl Planner {
    /// Looks for what is wanted in the files that a trace keeps.
    ///
    /// # Errors
    /// [`PrintError`] if it is nowhere.
    pub fn new(trace: &TraceReader, wanted: Wanted, condition: Option<Named>) -> Result<Planner, PrintError> {
        let files_dir = trace.files_dir().canonicalize().unwrap_or_else(|_| trace.files_dir());
        let mut files = DebugFiles::default();
        let mut found = Vec::new();
        for kept in trace.files() {
            let path = files_dir.join(hash_hex(&kept.file.hash));
            if let Some(file) = files.get(&path) {
                found.push((path, file));
            }
        }
        files.check()?;
        let mut planner = Planner {
            wanted,
            condition,
            places: BTreeMap::new(),
            compiled: HashMap::new(),
            notes: Vec::new(),
        };
        match planner.wanted.clone() {
            Wanted::Line { file, line, .. } => planner.find_line(found, &file, line)?,
            Wanted::Calls { function } => planner.find_functions(found, &function)?,
        }
        Ok(planner)
    }

    fn find_line(
        &mut self,
        files: Vec<(PathBuf, Arc<DebugFile>)>,
        name: &Path,
        line: u64,
    ) -> Result<(), PrintError> {
        let mut lines_with_code = BTreeSet::new();
        let mut is_known = false;
        let mut merged = Vec::new();
        for (path, file) in files {
            let found = lines::find(&file, name, line);
            is_known |= found.is_file_known;
            lines_with_code.extend(found.lines_with_code);
            if !found.addresses.is_empty() {
                self.places.insert(path, (file, Places::Line(found.addresses)));
            } else if !found.merged.is_empty() {
                merged.push((path, (file, Places::Line(found.merged))));
            }
        }
        if self.places.is_empty() && !merged.is_empty() {
            self.notes.push(format!(
                "the compiler has merged line {line} with another: what it changes may be shown changed already"
            ));
            self.places.extend(merged);
        }
        let shown = name.display().to_string();
        if !is_known {
            return Err(PrintError::NoSuchFile(shown));
        }
        if self.places.is_empty() {
            let nearest = lines::nearest(&lines_with_code, line);
            return Err(PrintError::NoSuchLine { file: shown, line, nearest });
        }
        Ok(())
    }

    fn find_functions(
        &mut self,
        files: Vec<(PathBuf, Arc<DebugFile>)>,
        name: &str,
    ) -> Result<(), PrintError> {
        let (mut inlined, mut similar) = (0, BTreeSet::new());
        for (path, file) in files {
            let found = functions::named(&file, name);
            inlined += found.inlined;
            similar.extend(found.similar);
            if !found.functions.is_empty() {
                self.places.insert(path, (file, Places::Functions(found.functions)));
            }
        }
        match (self.places.is_empty(), inlined) {
            (true, 0) => {
                const SHOWN_MAX: usize = 5;
                let some: Vec<String> = similar.into_iter().take(SHOWN_MAX).collect();
                let hint =
                    if some.is_empty() { String::new() } else { format!("; there is {}", some.join(", ")) };
                Err(PrintError::NoSuchFunction(name.to_owned(), hint))
            }
            (true, _) => Err(PrintError::OnlyInlined(name.to_owned())),
            (false, 0) => Ok(()),
            (false, count) => {
                self.notes.push(format!(
                    "{name} is also inlined at {count} places, which are no calls and are not shown"
                ));
                Ok(())
            }
        }
    }

    /// The breakpoints for what a process has mapped now, and for the places where its
    /// calls return.
    ///
    /// # Errors
    /// [`PrintError`] of an expression that has no meaning there.
    pub fn plan(&mut self, pid: i32, returns: &calls::Returns) -> Result<Plan, PrintError> {
        const EXECUTABLE: u32 = 4;
        let maps = read_maps(pid)?;
        let code: Vec<&Mapping> = maps.iter().filter(|map| map.protection & EXECUTABLE != 0).collect();
        let mut plan = Plan::default();
        for map in code.iter().filter(|map| map.has_file()) {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&map.name));
            let Some((file, _)) = self.places.get(&path) else { continue };
            let Some(bias) = file.bias(map.start, map.file_offset) else { continue };
            for site in self.sites(&path, bias)? {
                let address = site.address.wrapping_add(bias);
                if (map.start..map.end).contains(&address) && !plan.stops.programs.contains_key(&address) {
                    plan.stops.breakpoints.push(address);
                    plan.stops.programs.insert(address, site.block.clone());
                    plan.purposes.push(Purpose::Site(site));
                }
            }
        }
        plan.follow_calls(&code, returns);
        Ok(plan)
    }

    fn sites(&mut self, path: &Path, bias: u64) -> Result<Vec<Arc<Site>>, PrintError> {
        let key = (path.to_owned(), bias);
        if let Some(known) = self.compiled.get(&key) {
            return Ok(known.clone());
        }
        let Some((file, places)) = self.places.get(path) else { return Ok(Vec::new()) };
        let sites = match places {
            Places::Line(addresses) => self.line_sites(file, addresses, bias)?,
            Places::Functions(functions) => {
                let made: Result<Vec<Site>, PrintError> = functions
                    .iter()
                    .filter_map(|function| self.call_site(file, function, bias).transpose())
                    .collect();
                made?
            }
        };
        let sites: Vec<Arc<Site>> = sites.into_iter().map(Arc::new).collect();
        self.compiled.insert(key, sites.clone());
        Ok(sites)
    }

    /// A line's sites. What an expression names may be missing at some of them, not at
    /// all.
    fn line_sites(
        &self,
        file: &Arc<DebugFile>,
        addresses: &BTreeSet<u64>,
        bias: u64,
    ) -> Result<Vec<Site>, PrintError> {
        let Wanted::Line { file: name, line, expressions } = &self.wanted else { return Ok(Vec::new()) };
        let place_name = format!("{}:{line}", name.display());
        let spots: Vec<Spot> = addresses
            .iter()
            .filter_map(|address| scope::spot_at(file, *address, bias))
            .map(|spot| Spot { line: Some((name.as_path(), *line)), ..spot })
            .collect();
        let compiler = |spot, written| Compiler { spot, written, place_name: &place_name };
        let mut shapes: Vec<Vec<(String, Shape)>> = vec![Vec::new(); spots.len()];
        for expression in expressions {
            let made: Vec<Result<Shape, PrintError>> = spots
                .iter()
                .map(|spot| shape::of_expression(&compiler(*spot, &expression.0), expression))
                .collect();
            let has_meaning = made.iter().any(Result::is_ok);
            for (shapes, made) in shapes.iter_mut().zip(made) {
                let shape = match made {
                    Err(PrintError::NoSuchVariable { .. }) if has_meaning => Shape::gone("not in scope here"),
                    other => other?,
                };
                shapes.push((expression.0.clone(), shape));
            }
        }
        let mut sites = Vec::new();
        for (spot, shapes) in spots.iter().zip(shapes) {
            let condition = self.condition(|written| compiler(*spot, written))?;
            let block = block(0, &condition, shapes.iter().map(|(_, shape)| shape));
            sites.push(Site {
                file: Arc::clone(file),
                shapes,
                function: None,
                exits: Vec::new(),
                address: spot.address,
                bias,
                block,
            });
        }
        Ok(sites)
    }

    fn call_site(
        &self,
        file: &Arc<DebugFile>,
        function: &Function,
        bias: u64,
    ) -> Result<Option<Site>, PrintError> {
        let Some(spot) = scope::spot_at(file, function.entry, bias) else { return Ok(None) };
        let place_name = format!("the beginning of {}", functions::full_name(file, function.id));
        let mut shapes = vec![("".to_owned(), calls::frame_shape(&spot))];
        for (name, id) in scope::parameters(file, function.id) {
            let shape =
                calls::parameter_shape(&Compiler { spot, written: &name, place_name: &place_name }, id);
            shapes.push((name, shape));
        }
        let condition = self.condition(|written| Compiler { spot, written, place_name: &place_name })?;
        let exits = functions::exits(file, function.id);
        let at_once = if exits.contains(&spot.address) { breakpoint_kind::LEAVES_AT_ONCE } else { 0 };
        let block =
            block(breakpoint_kind::CALLS | at_once, &condition, shapes.iter().map(|(_, shape)| shape));
        let function = Some(function.clone());
        Ok(Some(Site { file: Arc::clone(file), shapes, function, exits, address: spot.address, bias, block }))
    }

    /// The code of the condition, empty if there is none.
    fn condition<'a>(&'a self, compiler: impl Fn(&'a str) -> Compiler<'a>) -> Result<Code, PrintError> {
        let Some(condition) = &self.condition else { return Ok(Code::default()) };
        compiler(&condition.0).condition(condition).map_err(|fail| match fail {
            Fail::Error(error) => error,
            Fail::Gone(why) => {
                PrintError::Expression(condition.0.clone(), format!("the condition has no value here: {why}"))
            }
        })
    }
}

impl Plan {
    /// Breakpoints where calls leave their functions, and where they return to, once
    /// that is known.
    fn follow_calls(&mut self, code: &[&Mapping], returns: &calls::Returns) {
        if returns.addresses.is_empty() {
            return;
        }
        let mut exits = Vec::new();
        for (purpose, address) in self.purposes.iter().zip(&self.stops.breakpoints) {
            if let Purpose::Site(site) = purpose {
                let bias = address.wrapping_sub(site.address);
                exits.extend(site.exits.iter().map(|exit| exit.wrapping_add(bias)));
            }
        }
        for address in exits {
            self.add(address, &returns.exit_block, Purpose::Exit);
        }
        for &address in &returns.addresses {
            if code.iter().any(|map| (map.start..map.end).contains(&address)) {
                self.add(address, &returns.block, Purpose::Return);
            }
        }
    }

    fn add(&mut self, address: u64, block: &[u8], purpose: Purpose) {
        if !self.stops.programs.contains_key(&address) {
            self.stops.breakpoints.push(address);
            self.stops.programs.insert(address, block.to_vec());
            self.purposes.push(purpose);
        }
    }
}

impl Site {
    /// The file where it is mapped.
    pub fn image(&self) -> Image<'_> {
        Image { file: &self.file, bias: self.bias }
    }

    /// True if the function consists of one instruction that leaves it.
    pub fn leaves_at_once(&self) -> bool {
        self.exits.contains(&self.address)
    }
}

/// A breakpoint's block of programs.
/// `adds` says, in bits of [`breakpoint_kind`], which breakpoint of calls it is.
pub(crate) fn block<'a>(adds: u8, condition: &Code, shapes: impl Iterator<Item = &'a Shape>) -> Vec<u8> {
    let mut block = vec![breakpoint_kind::RECORDS | adds];
    let mut put = |code: &[u8]| {
        block.extend_from_slice(&(code.len() as u16).to_be_bytes());
        block.extend_from_slice(code);
    };
    put(&condition.bytes);
    let mut needs_vectors = condition.needs_vectors;
    for shape in shapes {
        put(&shape.code.bytes);
        needs_vectors |= shape.needs_vectors || shape.code.needs_vectors;
    }
    block.extend_from_slice(&PROGRAMS_END.to_be_bytes());
    if needs_vectors {
        block[0] |= breakpoint_kind::VECTORS;
    }
    block
}
