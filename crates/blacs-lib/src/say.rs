//! Errors and warnings, in the form that BLACS gives them.

use std::io::Write;

use fmpl_table::FmplTable;

/// Where a call came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Our coordinates in the context, or -1.
    pub(crate) place: (i32, i32),
    /// Our rank, or -1.
    pub(crate) rank: i32,
    /// The context as it was given, or -1.
    pub(crate) context: i32,
}

impl Origin {
    /// Of a call that knows nothing.
    pub(crate) const NOWHERE: Origin = Origin {
        place: (-1, -1),
        rank: -1,
        context: -1,
    };
}

/// Says what is wrong, and ends all processes.
pub(crate) fn fatal(
    table: Option<&FmplTable>,
    routine: &str,
    origin: Origin,
    what: &dyn std::fmt::Display,
) -> ! {
    tell("ERROR", routine, origin, what);
    end(table, 1)
}

/// Says what is odd.
pub(crate) fn warn(routine: &str, origin: Origin, what: &dyn std::fmt::Display) {
    tell("WARNING", routine, origin, what);
}

fn tell(kind: &str, routine: &str, origin: Origin, what: &dyn std::fmt::Display) {
    let ((row, column), rank, context) = (origin.place, origin.rank, origin.context);
    line(format_args!(
        "BLACS {kind} '{what}'\nfrom {{{row},{column}}}, pnum={rank}, Contxt={context}, in '{routine}'.\n"
    ));
}

/// Writes a line to standard error, which nobody need read: it does not fail.
pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Ends all processes with this code.
pub(crate) fn end(table: Option<&FmplTable>, code: i32) -> ! {
    // SAFETY: NULL means all open streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    if let Some(table) = table {
        // SAFETY: there may be no message; ours was said. The call does not return.
        unsafe { (table.abort)(code, std::ptr::null()) };
    }
    std::process::exit(if code == 0 { 1 } else { code })
}
