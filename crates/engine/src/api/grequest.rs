//! Generalised requests: operations that the program carries out and MPI waits for.

use boundary::{UserBuf, UserFn};
use types::{Handle, Result, consts, fault};

use crate::request::{Body, Grequest, Kind, Request};
use crate::state::Engine;

fn callbacks(request: &Request) -> Option<Grequest> {
    match &*request.body.borrow() {
        Body::Generalized(g) => Some(**g),
        _ => None,
    }
}

fn callback_failed(code: i32, which: &str) -> Result<()> {
    if code == consts::SUCCESS {
        return Ok(());
    }
    Err(fault(
        code,
        format!("the generalised request's {which} function returned error {code}"),
    ))
}

impl Engine {
    /// Lets a completed generalised request's query function fill the status.
    pub(crate) fn query_grequest(&self, request: &Request) -> Result<()> {
        let Some(g) = callbacks(request) else {
            return Ok(());
        };
        let mut memory = [0u8; 64];
        (self.hooks.write_status)(&request.status(), &mut memory);
        let status = UserBuf::of_array(&mut memory);
        let code = g.query.call_grequest_query(g.extra_state, status);
        request.set_status((self.hooks.read_status)(&memory));
        callback_failed((self.hooks.callback.error_back)(code), "query")
    }

    /// Lets a generalised request's free function run.
    pub(crate) fn free_grequest(&self, request: &Request) -> Result<()> {
        let Some(g) = callbacks(request) else {
            return Ok(());
        };
        let code = g.free.call_grequest_free(g.extra_state);
        callback_failed((self.hooks.callback.error_back)(code), "free")
    }

    /// Lets a generalised request's cancel function run.
    pub(crate) fn cancel_grequest(&self, request: &Request) -> Result<()> {
        let Some(g) = callbacks(request) else {
            return Ok(());
        };
        let code = g
            .cancel
            .call_grequest_cancel(g.extra_state, request.is_done());
        callback_failed((self.hooks.callback.error_back)(code), "cancel")
    }
}

/// `MPI_Grequest_start`.
pub fn grequest_start(
    e: &Engine,
    query_fn: UserFn,
    free_fn: UserFn,
    cancel_fn: UserFn,
    extra_state: usize,
    request: &mut Handle,
) -> Result<()> {
    if query_fn.is_null() || free_fn.is_null() || cancel_fn.is_null() {
        return Err(fault(
            consts::ERR_ARG,
            "a callback of the generalised request is NULL",
        ));
    }
    let (handle, found) = e.new_request(Kind::Generalized, 1, None)?;
    let g = Grequest {
        query: query_fn,
        free: free_fn,
        cancel: cancel_fn,
        extra_state,
    };
    found.body.replace(Body::Generalized(Box::new(g)));
    *request = handle;
    Ok(())
}

/// `MPI_Grequest_complete`.
pub fn grequest_complete(e: &Engine, request: Handle) -> Result<()> {
    let found = e.request(request)?;
    if found.kind.get() != Kind::Generalized || found.is_done() {
        return Err(fault(
            consts::ERR_REQUEST,
            "the request is not an active generalised request",
        ));
    }
    found.post.set_parts(0);
    e.wake_waiters();
    if found.unattended.get() {
        let freed = e.free_grequest(found);
        e.release_request(request, found);
        return freed;
    }
    Ok(())
}
