//! What `MPI_Error_string` says of the standard's error classes.

use types::consts;

/// The text of an error class of the standard; `None` for any other number.
pub fn of_class(class: i32) -> Option<&'static str> {
    if let Ok(index) = usize::try_from(class)
        && let Some(text) = CLASSES.get(index)
    {
        return Some(text);
    }
    let tool = class
        .checked_sub(consts::T_ERR_CANNOT_INIT)
        .and_then(|t| usize::try_from(t).ok());
    tool.and_then(|index| TOOL_CLASSES.get(index)).copied()
}

/// By class, from `MPI_SUCCESS` to `MPI_ERR_ABI`.
const CLASSES: [&str; 63] = [
    "MPI_SUCCESS: no error",
    "MPI_ERR_BUFFER: invalid buffer pointer",
    "MPI_ERR_COUNT: invalid count",
    "MPI_ERR_TYPE: invalid datatype",
    "MPI_ERR_TAG: invalid tag",
    "MPI_ERR_COMM: invalid communicator",
    "MPI_ERR_RANK: invalid rank",
    "MPI_ERR_REQUEST: invalid request",
    "MPI_ERR_ROOT: invalid root",
    "MPI_ERR_GROUP: invalid group",
    "MPI_ERR_OP: invalid operation",
    "MPI_ERR_TOPOLOGY: invalid topology",
    "MPI_ERR_DIMS: invalid dimensions",
    "MPI_ERR_ARG: invalid argument",
    "MPI_ERR_UNKNOWN: unknown error",
    "MPI_ERR_TRUNCATE: the message was truncated on receive",
    "MPI_ERR_OTHER: an error of no other class",
    "MPI_ERR_INTERN: internal error of the library",
    "MPI_ERR_PENDING: the operation is still pending",
    "MPI_ERR_IN_STATUS: the error is in the status",
    "MPI_ERR_ACCESS: permission denied",
    "MPI_ERR_AMODE: invalid access mode of a file",
    "MPI_ERR_ASSERT: invalid assertion",
    "MPI_ERR_BAD_FILE: invalid file name",
    "MPI_ERR_BASE: invalid base address",
    "MPI_ERR_CONVERSION: a data conversion function failed",
    "MPI_ERR_DISP: invalid displacement",
    "MPI_ERR_DUP_DATAREP: the data representation is already registered",
    "MPI_ERR_FILE_EXISTS: the file exists",
    "MPI_ERR_FILE_IN_USE: the file is open in some process",
    "MPI_ERR_FILE: invalid file handle",
    "MPI_ERR_INFO_KEY: invalid key of an info object",
    "MPI_ERR_INFO_NOKEY: the info object has no such key",
    "MPI_ERR_INFO_VALUE: invalid value of an info object",
    "MPI_ERR_INFO: invalid info object",
    "MPI_ERR_IO: input or output failed",
    "MPI_ERR_KEYVAL: invalid attribute key",
    "MPI_ERR_LOCKTYPE: invalid lock type",
    "MPI_ERR_NAME: the service name is not published",
    "MPI_ERR_NO_MEM: out of memory",
    "MPI_ERR_NOT_SAME: an argument differs between the processes",
    "MPI_ERR_NO_SPACE: no space is left for the file",
    "MPI_ERR_NO_SUCH_FILE: the file does not exist",
    "MPI_ERR_PORT: invalid port name",
    "MPI_ERR_QUOTA: the quota is exceeded",
    "MPI_ERR_READ_ONLY: the file or file system is read-only",
    "MPI_ERR_RMA_ATTACH: the memory can't be attached to the window",
    "MPI_ERR_RMA_CONFLICT: conflicting accesses to a window",
    "MPI_ERR_RMA_RANGE: the target memory is not part of the window",
    "MPI_ERR_RMA_SHARED: the memory can't be shared",
    "MPI_ERR_RMA_SYNC: wrong synchronisation of one-sided calls",
    "MPI_ERR_SERVICE: the service name can't be published or withdrawn",
    "MPI_ERR_SIZE: invalid size",
    "MPI_ERR_SPAWN: processes can't be spawned",
    "MPI_ERR_UNSUPPORTED_DATAREP: unsupported data representation",
    "MPI_ERR_UNSUPPORTED_OPERATION: unsupported operation",
    "MPI_ERR_WIN: invalid window",
    "MPI_ERR_RMA_FLAVOR: the window has the wrong flavor",
    "MPI_ERR_PROC_ABORTED: a peer process has ended or is out of reach",
    "MPI_ERR_VALUE_TOO_LARGE: the value is too large for its type",
    "MPI_ERR_SESSION: invalid session",
    "MPI_ERR_ERRHANDLER: invalid error handler",
    "MPI_ERR_ABI: the request does not fit the ABI in use",
];

/// By class, from `MPI_T_ERR_CANNOT_INIT` to `MPI_T_ERR_PVAR_NO_ATOMIC`.
const TOOL_CLASSES: [&str; 18] = [
    "MPI_T_ERR_CANNOT_INIT: the tool interface can't be initialised",
    "MPI_T_ERR_NOT_ACCESSIBLE: the tool interface is not accessible now",
    "MPI_T_ERR_NOT_INITIALIZED: the tool interface is not initialised",
    "MPI_T_ERR_NOT_SUPPORTED: the tool interface does not support this",
    "MPI_T_ERR_MEMORY: out of memory in the tool interface",
    "MPI_T_ERR_INVALID: invalid use of the tool interface",
    "MPI_T_ERR_INVALID_INDEX: invalid index of a variable, category or event",
    "MPI_T_ERR_INVALID_ITEM: invalid index of an item",
    "MPI_T_ERR_INVALID_SESSION: invalid session of performance variables",
    "MPI_T_ERR_INVALID_HANDLE: invalid handle of the tool interface",
    "MPI_T_ERR_INVALID_NAME: no variable, category or event has this name",
    "MPI_T_ERR_OUT_OF_HANDLES: no more handles of the tool interface",
    "MPI_T_ERR_OUT_OF_SESSIONS: no more sessions of performance variables",
    "MPI_T_ERR_CVAR_SET_NOT_NOW: the control variable can't be set now",
    "MPI_T_ERR_CVAR_SET_NEVER: the control variable can't be set",
    "MPI_T_ERR_PVAR_NO_WRITE: the performance variable can't be written",
    "MPI_T_ERR_PVAR_NO_STARTSTOP: the performance variable can't be started or stopped",
    "MPI_T_ERR_PVAR_NO_ATOMIC: the performance variable can't be read and reset at once",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_own_text() {
        let names = [
            (consts::SUCCESS, "MPI_SUCCESS:"),
            (consts::ERR_ARG, "MPI_ERR_ARG:"),
            (consts::ERR_TRUNCATE, "MPI_ERR_TRUNCATE:"),
            (consts::ERR_FILE, "MPI_ERR_FILE:"),
            (consts::ERR_KEYVAL, "MPI_ERR_KEYVAL:"),
            (consts::ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC:"),
            (
                consts::ERR_UNSUPPORTED_OPERATION,
                "MPI_ERR_UNSUPPORTED_OPERATION:",
            ),
            (consts::ERR_ABI, "MPI_ERR_ABI:"),
            (consts::T_ERR_CANNOT_INIT, "MPI_T_ERR_CANNOT_INIT:"),
            (consts::T_ERR_PVAR_NO_ATOMIC, "MPI_T_ERR_PVAR_NO_ATOMIC:"),
        ];
        for (class, name) in names {
            assert!(of_class(class).unwrap().starts_with(name), "{class}");
        }
        for text in CLASSES.iter().chain(&TOOL_CLASSES) {
            assert!(text.len() < consts::MAX_ERROR_STRING as usize);
        }
    }

    #[test]
    fn other_numbers_have_none() {
        for class in [-1, 63, 1000, 1019, consts::ERR_LASTCODE, i32::MIN] {
            assert_eq!(of_class(class), None, "{class}");
        }
    }
}
