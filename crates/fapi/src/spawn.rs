//! Starting processes: arrays of strings, which mean something at the root only.

use std::ffi::{CString, c_char};

use fortran::text;

use crate::blocks::{error_codes, has_no_arguments};
use crate::handle::own_rank;
use crate::prelude::*;
use crate::string::bytes;

/// Strings for C with a null pointer behind them.
struct Strings {
    _texts: Vec<CString>,
    pointers: Vec<*mut c_char>,
}

impl Strings {
    fn new(texts: Vec<CString>) -> Strings {
        let pointers = texts.iter().map(|text| text.as_ptr().cast_mut());
        let pointers = pointers.chain([std::ptr::null_mut()]).collect();
        Strings {
            _texts: texts,
            pointers,
        }
    }

    fn at(&mut self) -> *mut c_void {
        self.pointers.as_mut_ptr().cast()
    }
}

/// The strings of an array from one on, `step` strings apart, up to a blank one.
///
/// # Safety
/// Strings of `length` bytes are readable from `first` on, up to a blank one.
unsafe fn arguments(first: *const u8, length: usize, step: usize) -> Strings {
    let mut texts = Vec::new();
    loop {
        // SAFETY: the caller's contract: the string before was not blank.
        let text = unsafe { bytes(first.add(texts.len() * step * length), length) };
        let text = text::trimmed(text);
        if text.is_empty() {
            return Strings::new(texts);
        }
        texts.push(text::c_string(text));
    }
}

routine! { pmpi_comm_spawn_ "comm_spawn" "COMM_SPAWN"
    (command: *const u8, argv: *const u8, maxprocs: *const i32, info: *const i32, root: *const i32,
     comm: *const i32, intercomm: *mut i32, array_of_errcodes: *mut i32)
    (command_length, argv_length) {
        let is_root = own_rank(*comm) == *root;
        let command = is_root.then(|| text_in(command, command_length));
        let mut strings = (is_root && !has_no_arguments(argv)).then(|| arguments(argv, argv_length, 1));
        MPI_Comm_spawn(
            command.as_ref().map_or(std::ptr::null(), |command| command.as_ptr()),
            strings.as_mut().map_or(std::ptr::null_mut(), Strings::at),
            *maxprocs, Info::from_int(*info), *root, Comm::from_int(*comm),
            handle_out::<Comm>(intercomm).at(), error_codes(array_of_errcodes),
        )
    }
}

routine! { pmpi_comm_spawn_multiple_ "comm_spawn_multiple" "COMM_SPAWN_MULTIPLE"
    (count: *const i32, array_of_commands: *const u8, array_of_argv: *const u8,
     array_of_maxprocs: *const i32, array_of_info: *const i32, root: *const i32, comm: *const i32,
     intercomm: *mut i32, array_of_errcodes: *mut i32)
    (commands_length, argv_length) {
        let is_root = own_rank(*comm) == *root;
        let n = if is_root { *count } else { 0 };
        let number = usize::try_from(n).unwrap_or(0);
        let commands = (0..number).map(|i| text_in(array_of_commands.add(i * commands_length), commands_length));
        let mut commands = Strings::new(commands.collect());
        // The arguments of command i are (i, 1), (i, 2), ...: `count` strings apart.
        let first = |i| array_of_argv.add(i * argv_length);
        let wanted = if has_no_arguments(array_of_argv) { 0 } else { number };
        let mut lists: Vec<_> = (0..wanted).map(|i| arguments(first(i), argv_length, number)).collect();
        let mut pointers: Vec<_> = lists.iter_mut().map(Strings::at).collect();
        let argv = if wanted == 0 { std::ptr::null_mut() } else { pointers.as_mut_ptr().cast() };
        MPI_Comm_spawn_multiple(
            *count, commands.at(), argv, array_of_maxprocs,
            handles_in::<Info>(array_of_info, || n).at(), *root, Comm::from_int(*comm),
            handle_out::<Comm>(intercomm).at(), error_codes(array_of_errcodes),
        )
    }
}
