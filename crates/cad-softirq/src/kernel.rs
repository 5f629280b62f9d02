//! The system calls: maps, programs, links and mapped results (`page`). The only unsafe module.
//!
//! Invariants: whatever is given to the kernel has the length that the kernel goes by (a [`Map`] knows its
//! entries' size); nothing is pinned, so all is gone with its descriptors. Who calls it: `tables`, which needs privilege, and `rank`,
//! which maps results.

mod page;

pub use page::Page;

use crate::asm::Code;
use crate::btf;
use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const BTF_LOAD: libc::c_int = 18;
const MAP_FREEZE: libc::c_int = 22;
const MAP_UPDATE_BATCH: libc::c_int = 26;
const LINK_CREATE: libc::c_int = 28;
const OBJECT_INFO: libc::c_int = 15;
const PROG_ATTACH: libc::c_int = 8;

const TCX_INGRESS: u32 = 46;
/// In front of the programs that are there.
const BEFORE: u32 = 1 << 3;

const MMAPABLE: u32 = 1 << 10;
const NO_PREALLOC: u32 = 1;
/// Only where there is one.
const EXIST: u64 = 2;

/// What the verifier may say, in bytes: the end of it tells what was wrong.
const LOG: usize = 1 << 24;

/// How often a program is loaded again, as the verifier gives up (EAGAIN) when a signal is pending, also where a debugger or a freezer
/// makes it. As many as libbpf does.
const ATTEMPTS: usize = 5;

/// Why the kernel refuses something, in words for a person.
#[derive(Debug)]
pub struct Refused {
    /// What was wanted.
    pub what: &'static str,
    /// What the kernel says.
    pub error: io::Error,
    /// What its verifier says, where that was asked.
    pub log: String,
}

impl Refused {
    pub(crate) fn new(what: &'static str, error: io::Error) -> Refused {
        let log = String::new();
        Refused { what, error, log }
    }

    /// Whether privilege is what is missing.
    pub fn is_forbidden(&self) -> bool {
        self.error.raw_os_error() == Some(libc::EPERM)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel refuses {}: {}", self.what, self.error)?;
        let lines: Vec<_> = self.log.lines().rev().take(30).collect();
        for line in lines.iter().rev() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// `bpf(command, attributes)`, which gives a number.
///
/// # Safety
/// `T` begins as the kernel's attributes of this command do, and has no padding; addresses in it are of memory as long as
/// the lengths beside them say.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<RawFd> {
    let at: *mut T = attributes;
    // SAFETY: the structure is valid, writable and as long as told; the rest is the caller's contract.
    let got = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) };
    match RawFd::try_from(got) {
        Ok(got) if got >= 0 => Ok(got),
        _ => Err(io::Error::last_os_error()),
    }
}

/// As [`bpf`], of a command that gives a descriptor, which the kernel closes on exec.
///
/// # Safety
/// As of [`bpf`]; the command makes a descriptor.
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's contract is the same; the descriptor is new, so nobody else owns it.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// What a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Shape {
    /// Entries in a row.
    Array = 2,
    /// One for each processor.
    PerCpu = 6,
    /// Entries that are maps.
    OfMaps = 12,
    /// One for each socket that was given one, by whoever holds it; it goes with the socket.
    OfSockets = 24,
    /// Entries that user space can map to read them. It can't write, by whatever call: only programs do. (A descriptor that can
    /// only read would not do: the kernel does not map what is not opened for writing.)
    Mapped = 2 | MMAPABLE,
}

/// A map; its keys are numbers from 0 on.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    shape: Shape,
    bytes: u32,
    entries: u32,
}

#[repr(C)]
struct MapCreate {
    ty: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
    ifindex: u32,
    btf: u32,
    btf_key: u32,
    btf_value: u32,
}

#[repr(C)]
struct Element {
    map: u64,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

impl Map {
    /// A map of `entries` with `bytes` each, all zeros. `inner` is one like those that become entries of
    /// [`Shape::OfMaps`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        shape: Shape,
        bytes: usize,
        entries: u32,
        inner: Option<&Map>,
    ) -> Result<Map, Refused> {
        let (ty, flags) = match shape {
            Shape::Mapped => (Shape::Array as u32, MMAPABLE),
            Shape::OfSockets => (shape as u32, NO_PREALLOC),
            other => (other as u32, 0),
        };
        // Such a map has as many as there are sockets, and its entries are described.
        let (entries, described) = match shape {
            Shape::OfSockets => (0, Some(btf::describe_storage(bytes as u32))),
            _ => (entries, None),
        };
        let types = described.map(|types| load_btf(&types)).transpose()?;
        let mut attributes = MapCreate {
            ty,
            key: 4,
            value: bytes as u32,
            entries,
            flags,
            inner: inner.map_or(0, |map| map.fd.as_raw_fd() as u32),
            node: 0,
            name: *b"yamabiko\0\0\0\0\0\0\0\0",
            ifindex: 0,
            btf: types.as_ref().map_or(0, |fd| fd.as_raw_fd() as u32),
            btf_key: types.as_ref().map_or(0, |_| btf::STORAGE_KEY),
            btf_value: types.as_ref().map_or(0, |_| btf::STORAGE_VALUE),
        };
        // SAFETY: no addresses; a descriptor is made.
        let fd = unsafe { bpf_fd(MAP_CREATE, &mut attributes) };
        let fd = fd.map_err(|e| Refused::new("a map", e))?;
        if shape == Shape::Mapped {
            let mut attributes = fd.as_raw_fd() as u32;
            // SAFETY: no addresses.
            let frozen = unsafe { bpf(MAP_FREEZE, &mut attributes) };
            frozen.map_err(|e| Refused::new("a map that only programs write", e))?;
        }
        Ok(Map {
            fd,
            shape,
            bytes: bytes as u32,
            entries,
        })
    }

    /// How many entries there are.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Its descriptor, as it is given to others.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sets an entry.
    ///
    /// # Errors
    /// There is no such entry, `value` is not one, or the kernel's.
    pub fn set(&self, key: u32, value: &[u8]) -> io::Result<()> {
        self.fits(value.len())?;
        // SAFETY: the value was measured.
        unsafe { self.element(MAP_UPDATE, key, value.as_ptr() as u64, 0) }
    }

    /// Sets the entry of a socket; `again`: of one that has an entry, and of no other.
    ///
    /// # Errors
    /// It is no socket, or none that has an entry, `value` is not one, or the kernel's.
    pub fn set_of(&self, socket: BorrowedFd<'_>, value: &[u8], again: bool) -> io::Result<()> {
        if self.shape != Shape::OfSockets || value.len() != self.bytes as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (key, flags) = (socket.as_raw_fd() as u32, if again { EXIST } else { 0 });
        // SAFETY: the value was measured; the key is a descriptor, as such a map's are.
        unsafe { self.element(MAP_UPDATE, key, value.as_ptr() as u64, flags) }
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// As of [`set`](Map::set).
    pub fn get(&self, key: u32, value: &mut [u8]) -> io::Result<()> {
        self.fits(value.len())?;
        // SAFETY: the value was measured, and may be written.
        unsafe { self.element(MAP_LOOKUP, key, value.as_mut_ptr() as u64, 0) }
    }

    /// Reads the entry of a socket.
    ///
    /// # Errors
    /// As of [`set_of`](Map::set_of).
    pub fn get_of(&self, socket: BorrowedFd<'_>, value: &mut [u8]) -> io::Result<()> {
        if self.shape != Shape::OfSockets || value.len() != self.bytes as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let key = socket.as_raw_fd() as u32;
        // SAFETY: the value was measured, and may be written.
        unsafe { self.element(MAP_LOOKUP, key, value.as_mut_ptr() as u64, 0) }
    }

    fn fits(&self, length: usize) -> io::Result<()> {
        let plain = matches!(self.shape, Shape::Array | Shape::Mapped);
        match plain && length == self.bytes as usize {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Makes each of `inner` the entry of [`Shape::OfMaps`] that it is named with, and waits until no program is at those that were there: until
    /// none runs any more that ran when this was called. That takes as long as the kernel waits for all its processors, once for all where
    /// the kernel is 6.8 or newer.
    ///
    /// # Errors
    /// As of [`set`](Map::set): some may be set then.
    pub fn set_maps(&self, inner: &[(u32, &Map)]) -> io::Result<()> {
        if self.shape != Shape::OfMaps {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (keys, fds): (Vec<u32>, Vec<u32>) = inner
            .iter()
            .map(|(key, map)| (key, map.fd.as_raw_fd() as u32))
            .unzip();
        let mut attributes = Batch {
            from: 0,
            to: 0,
            keys: keys.as_ptr() as u64,
            values: fds.as_ptr() as u64,
            count: keys.len() as u32,
            map: self.fd.as_raw_fd() as u32,
            element_flags: 0,
            flags: 0,
        };
        // SAFETY: keys have 4 bytes, such a map's entries are set as 4 bytes, which are a descriptor, and there are as many as told.
        unsafe { bpf(MAP_UPDATE_BATCH, &mut attributes).map(drop) }
    }

    /// # Safety
    /// `value` is the address of an entry's bytes, writable for a look-up.
    unsafe fn element(
        &self,
        command: libc::c_int,
        key: u32,
        value: u64,
        flags: u64,
    ) -> io::Result<()> {
        let mut attributes = Element {
            map: self.fd.as_raw_fd() as u64,
            key: &raw const key as u64,
            value,
            flags,
        };
        // SAFETY: a key has 4 bytes, the value is the caller's contract. (The descriptor is the lower half of its
        // field: the upper one is padding, which has to be zero, on the machines that `usable` allows.)
        unsafe { bpf(command, &mut attributes).map(drop) }
    }
}

#[repr(C)]
struct BtfLoad {
    btf: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    more: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    ty: u32,
    insn_count: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    attach: u32,
    btf: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    more: u32,
}

/// Has the kernel take types.
fn load_btf(types: &[u8]) -> Result<OwnedFd, Refused> {
    let mut attributes = BtfLoad {
        btf: types.as_ptr() as u64,
        log: 0,
        size: types.len() as u32,
        log_size: 0,
        log_level: 0,
        more: 0,
    };
    // SAFETY: the types are as long as told; a descriptor is made.
    let fd = unsafe { bpf_fd(BTF_LOAD, &mut attributes) };
    fd.map_err(|e| Refused::new("the description of types", e))
}

/// The kernel's `struct bpf_prog_info`, in words, as far as [`VERIFIED`] is in it.
const INFO_WORDS: usize = 56;
/// The word that says how many instructions the verifier went through.
const VERIFIED: usize = 54;

#[repr(C)]
struct ObjectInfo {
    object: u32,
    bytes: u32,
    info: u64,
}

#[repr(C)]
struct ProgAttach {
    target: u32,
    prog: u32,
    attach: u32,
    flags: u32,
}

#[repr(C)]
struct LinkCreate {
    prog: u32,
    ifindex: u32,
    attach: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// What a program looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Packets that come in through an interface.
    Packets,
    /// Options that are set at sockets of a control group.
    OptionsSet,
    /// Options that are asked for there.
    OptionsGot,
}

impl Sort {
    /// The kernel's numbers of the program's type and of where it is attached, and the name of its context.
    fn numbers(self) -> (u32, u32, &'static str) {
        match self {
            Sort::Packets => (3, TCX_INGRESS, "__sk_buff"),
            Sort::OptionsGot => (25, 21, "bpf_sockopt"),
            Sort::OptionsSet => (25, 22, "bpf_sockopt"),
        }
    }
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub struct Prog(OwnedFd);

/// What makes a program run; it ends when this is dropped.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

impl Prog {
    /// Has the kernel verify and compile `code`, whose maps are these.
    ///
    /// # Errors
    /// The kernel's, with what its verifier says.
    pub fn load(sort: Sort, code: &Code, maps: &[&Map]) -> Result<Prog, Refused> {
        let (ty, attach, context) = sort.numbers();
        let described = btf::describe(&code.functions, context);
        let types = load_btf(&described.types)?;
        let mut insns = code.insns.clone();
        for &(at, map) in &code.maps {
            insns[at].imm = maps[map].fd.as_raw_fd();
        }
        let insns: Vec<u8> = insns.iter().flat_map(|i| i.bytes()).collect();
        let mut attributes = ProgLoad {
            ty,
            insn_count: code.insns.len() as u32,
            insns: insns.as_ptr() as u64,
            license: c"Dual MIT/GPL".as_ptr() as u64,
            name: *b"yamabiko\0\0\0\0\0\0\0\0",
            attach,
            btf: types.as_raw_fd() as u32,
            function_size: 8,
            functions: described.functions.as_ptr() as u64,
            function_count: code.functions.len() as u32,
            ..ProgLoad::default()
        };
        let mut attempts = 0;
        let error = loop {
            // SAFETY: instructions, text and functions are as long as told; a descriptor is made.
            match unsafe { bpf_fd(PROG_LOAD, &mut attributes) } {
                Ok(fd) => return Ok(Prog(fd)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => break error,
            }
        };
        let mut refused = Refused::new("the program", error);
        if !refused.is_forbidden() {
            // Once more, to be told why.
            let mut log = vec![0; LOG];
            (attributes.log_level, attributes.log_size) = (1, LOG as u32);
            attributes.log = log.as_mut_ptr() as u64;
            // SAFETY: as above, and the log is as long as told.
            if let Ok(fd) = unsafe { bpf_fd(PROG_LOAD, &mut attributes) } {
                return Ok(Prog(fd));
            }
            let end = log.iter().position(|&b| b == 0).unwrap_or(LOG);
            refused.log = String::from_utf8_lossy(&log[..end]).into_owned();
        }
        Err(refused)
    }

    /// How many instructions the kernel's verifier went through, on all ways: it goes through a million at most.
    ///
    /// # Errors
    /// The kernel's.
    pub fn verified(&self) -> io::Result<u32> {
        let mut info = [0_u32; INFO_WORDS];
        let mut attributes = ObjectInfo {
            object: self.0.as_raw_fd() as u32,
            bytes: size_of_val(&info) as u32,
            info: info.as_mut_ptr() as u64,
        };
        // SAFETY: the information is writable and as long as told; as it is zeros, nothing is asked for that would be written elsewhere.
        unsafe { bpf(OBJECT_INFO, &mut attributes)? };
        Ok(info[VERIFIED])
    }

    /// Has it look at what comes in through an interface of the caller's namespace, before the programs that
    /// do so already if `first`, else after them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn attach(&self, interface: u32, first: bool) -> Result<Link, Refused> {
        let mut attributes = LinkCreate {
            prog: self.0.as_raw_fd() as u32,
            ifindex: interface,
            attach: TCX_INGRESS,
            flags: if first { BEFORE } else { 0 },
            relative: 0,
            padding: 0,
            revision: 0,
        };
        // SAFETY: no addresses; a descriptor is made.
        let fd = unsafe { bpf_fd(LINK_CREATE, &mut attributes) };
        let _fd = fd.map_err(|e| Refused::new("a program at an interface (tcx)", e))?;
        Ok(Link { _fd })
    }
}

impl Prog {
    /// Has it look at the options of all sockets that are made in a control group (of version 2) from now on, until the last of these and the
    /// group are gone: so it outlives the group's folder, and whoever calls this.
    ///
    /// # Errors
    /// The kernel's.
    pub fn attach_to_group(&self, group: BorrowedFd<'_>, sort: Sort) -> Result<(), Refused> {
        let mut attributes = ProgAttach {
            target: group.as_raw_fd() as u32,
            prog: self.0.as_raw_fd() as u32,
            attach: sort.numbers().1,
            flags: 0,
        };
        // SAFETY: no addresses.
        let attached = unsafe { bpf(PROG_ATTACH, &mut attributes) };
        attached
            .map(drop)
            .map_err(|e| Refused::new("a program at a control group", e))
    }
}

/// Packets from this socket have no sum of UDP's, so that nobody completes one in what the program makes of them.
///
/// # Errors
/// The kernel's.
pub(crate) fn without_sums(socket: &UdpSocket) -> io::Result<()> {
    number(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK)
}

/// Has a socket of IPv6 take packets without sums.
///
/// # Errors
/// The kernel's.
pub(crate) fn takes_no_sums(socket: &UdpSocket) -> io::Result<()> {
    number(socket, libc::SOL_UDP, libc::UDP_NO_CHECK6_RX)
}

/// Switches an option on.
fn number(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option is a number of this length.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            length,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
