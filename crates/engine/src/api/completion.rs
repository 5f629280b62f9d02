//! Completion: the Wait and Test families, queries without completing, cancelling and freeing.

use boundary::{Handles, Ints, Statuses};
use types::{Handle, Result, Status, consts, fault};

use crate::request::{Kind, Request, retire_light};
use crate::state::Engine;
use crate::wait::Waiting;

fn put(out: Option<&mut Status>, status: &Status) {
    if let Some(out) = out {
        *out = Status {
            error: out.error,
            ..*status
        };
    }
}

/// What to say of a wait for any of several requests: of which, if there is but one.
fn waiting_for_any(e: &Engine, call: &'static str, n: usize, requests: Handles) -> Waiting {
    let mut live = (0..n).filter(|&i| at(e, requests, i).is_ok_and(is_live));
    match (live.next(), live.next()) {
        (Some(one), None) => waiting_for(e, call, requests.get(one)),
        _ => Waiting::new(call, 0),
    }
}

/// What to say of a wait for one request.
pub(crate) fn waiting_for(e: &Engine, call: &'static str, handle: Handle) -> Waiting {
    let mut w = Waiting::new(call, 0);
    if let Ok(request) = e.request(handle) {
        (w.peer, w.tag) = request.awaited();
        w.context = request.context();
        if let Some((name, peer)) = request.operation() {
            (w.operation, w.peer) = (Some(name), peer);
        }
    }
    w
}

/// Retires the completed request at `handle` and gives its status also where it failed.
fn retire(e: &Engine, handle: &mut Handle) -> (Status, Result<()>) {
    if let Some(status) = retire_light(*handle) {
        *handle = consts::REQUEST_NULL;
        return (status, Ok(()));
    }
    let (status, result) = e.retire_with_status(handle);
    let error = result
        .as_ref()
        .map_or_else(|fault| fault.class, |()| status.error);
    (Status { error, ..status }, result)
}

/// Request `i`, unless it is null.
fn at(e: &Engine, requests: Handles, i: usize) -> Result<Option<&'static Request>> {
    match requests.get(i) {
        consts::REQUEST_NULL => Ok(None),
        handle => e.request(handle).map(Some),
    }
}

fn is_live(request: Option<&'static Request>) -> bool {
    request.is_some_and(|r| r.active.get())
}

/// Checks the whole array, so that a bad handle is found before anything is waited for.
fn check_all(e: &Engine, count: i32, requests: Handles) -> Result<usize> {
    let n = check_count(count)?;
    if n > 0 && requests.is_null() {
        return Err(fault(
            consts::ERR_ARG,
            format!("the array of {count} requests is NULL"),
        ));
    }
    for i in 0..n {
        at(e, requests, i)?;
    }
    Ok(n)
}

fn check_count(count: i32) -> Result<usize> {
    usize::try_from(count).map_err(|_| {
        fault(
            consts::ERR_COUNT,
            format!("the count is {count}, which is negative"),
        )
    })
}

/// `MPI_Wait`.
pub fn wait(e: &Engine, request: &mut Handle, status: Option<&mut Status>) -> Result<()> {
    if *request == consts::REQUEST_NULL || e.is_over(*request) {
        *request = consts::REQUEST_NULL;
        put(status, &Status::EMPTY);
        return Ok(());
    }
    e.wait_request(*request, || waiting_for(e, "MPI_Wait", *request))?;
    let (done, result) = retire(e, request);
    put(status, &done);
    result
}

/// `MPI_Test`.
pub fn test(
    e: &Engine,
    request: &mut Handle,
    flag: &mut bool,
    status: Option<&mut Status>,
) -> Result<()> {
    if *request == consts::REQUEST_NULL {
        *flag = true;
        put(status, &Status::EMPTY);
        return Ok(());
    }
    let found = e.request(*request)?;
    if !found.is_done() && !e.may_leave_to_kernel(*request) {
        e.go_on(|| found.is_done());
    }
    *flag = e.is_over_or_forsaken(*request, found);
    if !*flag {
        e.relax();
        return Ok(());
    }
    let (done, result) = retire(e, request);
    put(status, &done);
    result
}

/// Retires every request of an array whose members are all done.
fn retire_all(e: &Engine, n: usize, requests: Handles, statuses: Statuses) -> Result<()> {
    let mut first = None;
    for i in 0..n {
        let mut handle = requests.get(i);
        if handle == consts::REQUEST_NULL {
            statuses.set(i, &Status::EMPTY);
            continue;
        }
        let (status, result) = retire(e, &mut handle);
        requests.set(i, handle);
        statuses.set(i, &status);
        if let Err(fault) = result {
            first.get_or_insert((i, fault));
        }
        if first.is_some() {
            statuses.set_error(i, status.error);
        }
    }
    let Some((failed, fault)) = first else {
        return Ok(());
    };
    for i in 0..failed {
        statuses.set_error(i, consts::SUCCESS);
    }
    Err(in_status(fault))
}

fn in_status(mut fault: Box<types::Fault>) -> Box<types::Fault> {
    fault.of_request = Some(fault.class);
    fault.class = consts::ERR_IN_STATUS;
    fault
}

fn all_done(e: &Engine, n: usize, requests: Handles) -> bool {
    (0..n).all(|i| at(e, requests, i).is_ok_and(|r| r.is_none_or(Request::is_done)))
}

/// `MPI_Waitall`.
pub fn waitall(e: &Engine, count: i32, requests: Handles, statuses: Statuses) -> Result<()> {
    let n = check_all(e, count, requests)?;
    for i in 0..n {
        let handle = requests.get(i);
        if handle != consts::REQUEST_NULL {
            e.wait_request(handle, || waiting_for(e, "MPI_Waitall", handle))?;
        }
    }
    retire_all(e, n, requests, statuses)
}

/// `MPI_Testall`.
pub fn testall(
    e: &Engine,
    count: i32,
    requests: Handles,
    flag: &mut bool,
    statuses: Statuses,
) -> Result<()> {
    let n = check_all(e, count, requests)?;
    if !all_done(e, n, requests) {
        e.go_on(|| all_done(e, n, requests));
    }
    end_forsaken(e, n, requests);
    *flag = all_done(e, n, requests);
    if !*flag {
        e.relax();
        return Ok(());
    }
    retire_all(e, n, requests, statuses)
}

/// Ends those that wait for what nobody is left to send.
fn end_forsaken(e: &Engine, n: usize, requests: Handles) {
    if !e.has_lost_any() {
        return;
    }
    for i in 0..n {
        if let Ok(Some(request)) = at(e, requests, i) {
            e.is_over_or_forsaken(requests.get(i), request);
        }
    }
}

fn find_done(e: &Engine, n: usize, requests: Handles) -> Option<usize> {
    (0..n).find(|&i| {
        at(e, requests, i).is_ok_and(|r| r.is_some_and(|r| r.active.get() && r.is_done()))
    })
}

fn any_live(e: &Engine, n: usize, requests: Handles) -> bool {
    (0..n).any(|i| at(e, requests, i).is_ok_and(is_live))
}

fn retire_one(e: &Engine, i: usize, requests: Handles, status: Option<&mut Status>) -> Result<()> {
    let mut handle = requests.get(i);
    let (done, result) = retire(e, &mut handle);
    requests.set(i, handle);
    put(status, &done);
    result
}

/// `MPI_Waitany`.
pub fn waitany(
    e: &Engine,
    count: i32,
    requests: Handles,
    index: &mut i32,
    status: Option<&mut Status>,
) -> Result<()> {
    let n = check_all(e, count, requests)?;
    *index = consts::UNDEFINED;
    if !any_live(e, n, requests) {
        put(status, &Status::EMPTY);
        return Ok(());
    }
    let mut found = None;
    let what = || waiting_for_any(e, "MPI_Waitany", n, requests);
    e.wait_until(what, |e| {
        end_forsaken(e, n, requests);
        found = find_done(e, n, requests);
        found.is_some()
    });
    let i = found.expect("waited for one");
    *index = i as i32;
    retire_one(e, i, requests, status)
}

/// `MPI_Testany`.
pub fn testany(
    e: &Engine,
    count: i32,
    requests: Handles,
    index: &mut i32,
    flag: &mut bool,
    status: Option<&mut Status>,
) -> Result<()> {
    let n = check_all(e, count, requests)?;
    *index = consts::UNDEFINED;
    if !any_live(e, n, requests) {
        *flag = true;
        put(status, &Status::EMPTY);
        return Ok(());
    }
    let mut found = find_done(e, n, requests);
    if found.is_none() {
        e.go_on(|| find_done(e, n, requests).is_some());
        end_forsaken(e, n, requests);
        found = find_done(e, n, requests);
    }
    *flag = found.is_some();
    let Some(i) = found else {
        e.relax();
        return Ok(());
    };
    *index = i as i32;
    retire_one(e, i, requests, status)
}

/// Retires all that are done, packing their indices and statuses to the front.
/// Retires all that are done, however many that are by then, and counts them, those that failed too.
fn retire_some(
    e: &Engine,
    n: usize,
    requests: Handles,
    outcount: &mut i32,
    (indices, statuses): (Ints, Statuses),
) -> Result<()> {
    let (mut count, mut first) = (0usize, None);
    *outcount = 0;
    for i in 0..n {
        let mut handle = requests.get(i);
        if handle == consts::REQUEST_NULL {
            continue;
        }
        let request = e.request(handle)?;
        if !request.active.get() || !request.is_done() {
            continue;
        }
        let (status, result) = retire(e, &mut handle);
        requests.set(i, handle);
        indices.set(count, i as i64);
        statuses.set(count, &status);
        if let Err(fault) = result {
            first.get_or_insert((count, fault));
        }
        if first.is_some() {
            statuses.set_error(count, status.error);
        }
        count += 1;
        *outcount = count as i32;
    }
    let Some((failed, fault)) = first else {
        return Ok(());
    };
    (0..failed).for_each(|i| statuses.set_error(i, consts::SUCCESS));
    Err(in_status(fault))
}

/// `MPI_Waitsome`.
pub fn waitsome(
    e: &Engine,
    incount: i32,
    requests: Handles,
    outcount: &mut i32,
    indices: Ints,
    statuses: Statuses,
) -> Result<()> {
    let n = check_all(e, incount, requests)?;
    *outcount = consts::UNDEFINED;
    if !any_live(e, n, requests) {
        return Ok(());
    }
    let what = || waiting_for_any(e, "MPI_Waitsome", n, requests);
    e.wait_until(what, |e| {
        end_forsaken(e, n, requests);
        find_done(e, n, requests).is_some()
    });
    retire_some(e, n, requests, outcount, (indices, statuses))
}

/// `MPI_Testsome`.
pub fn testsome(
    e: &Engine,
    incount: i32,
    requests: Handles,
    outcount: &mut i32,
    indices: Ints,
    statuses: Statuses,
) -> Result<()> {
    let n = check_all(e, incount, requests)?;
    *outcount = consts::UNDEFINED;
    if !any_live(e, n, requests) {
        return Ok(());
    }
    e.go_on(|| find_done(e, n, requests).is_some());
    end_forsaken(e, n, requests);
    if find_done(e, n, requests).is_none() {
        *outcount = 0;
        e.relax();
        return Ok(());
    }
    retire_some(e, n, requests, outcount, (indices, statuses))
}

/// The status of a completed or inactive request, which stays as it is.
fn peek(e: &Engine, request: Option<&'static Request>) -> Result<Status> {
    let Some(request) = request.filter(|r| r.active.get()) else {
        return Ok(Status::EMPTY);
    };
    e.query_grequest(request)?;
    Ok(request.status())
}

/// `MPI_Request_get_status`.
pub fn request_get_status(
    e: &Engine,
    request: Handle,
    flag: &mut bool,
    status: Option<&mut Status>,
) -> Result<()> {
    let found = match request {
        consts::REQUEST_NULL => None,
        handle => Some(e.request(handle)?),
    };
    if let Some(found) = found.filter(|r| !r.is_done()) {
        e.go_on(|| found.is_done());
    }
    *flag = found.is_none_or(|r| e.is_over_or_forsaken(request, r));
    if *flag {
        put(status, &peek(e, found)?);
    } else {
        e.relax();
    }
    Ok(())
}

/// `MPI_Request_get_status_any`.
pub fn request_get_status_any(
    e: &Engine,
    count: i32,
    requests: Handles,
    index: &mut i32,
    flag: &mut bool,
    status: Option<&mut Status>,
) -> Result<()> {
    let n = check_all(e, count, requests)?;
    *index = consts::UNDEFINED;
    if !any_live(e, n, requests) {
        *flag = true;
        put(status, &Status::EMPTY);
        return Ok(());
    }
    e.go_on(|| find_done(e, n, requests).is_some());
    end_forsaken(e, n, requests);
    let found = find_done(e, n, requests);
    *flag = found.is_some();
    let Some(i) = found else {
        e.relax();
        return Ok(());
    };
    *index = i as i32;
    put(status, &peek(e, at(e, requests, i)?)?);
    Ok(())
}

/// `MPI_Request_get_status_all`.
pub fn request_get_status_all(
    e: &Engine,
    count: i32,
    requests: Handles,
    flag: &mut bool,
    statuses: Statuses,
) -> Result<()> {
    let n = check_all(e, count, requests)?;
    e.go_on(|| all_done(e, n, requests));
    end_forsaken(e, n, requests);
    *flag = all_done(e, n, requests);
    if !*flag {
        e.relax();
        return Ok(());
    }
    for i in 0..n {
        statuses.set(i, &peek(e, at(e, requests, i)?)?);
    }
    Ok(())
}

/// `MPI_Request_get_status_some`.
pub fn request_get_status_some(
    e: &Engine,
    incount: i32,
    requests: Handles,
    outcount: &mut i32,
    indices: Ints,
    statuses: Statuses,
) -> Result<()> {
    let n = check_all(e, incount, requests)?;
    *outcount = consts::UNDEFINED;
    if !any_live(e, n, requests) {
        return Ok(());
    }
    e.go_on(|| find_done(e, n, requests).is_some());
    end_forsaken(e, n, requests);
    let mut count = 0;
    for i in 0..n {
        let Some(request) = at(e, requests, i)? else {
            continue;
        };
        if request.active.get() && request.is_done() {
            indices.set(count, i as i64);
            statuses.set(count, &peek(e, Some(request))?);
            count += 1;
        }
    }
    *outcount = count as i32;
    if count == 0 {
        e.relax();
    }
    Ok(())
}

/// `MPI_Request_free`.
pub fn request_free(e: &Engine, request: &mut Handle) -> Result<()> {
    if *request == consts::REQUEST_NULL {
        return Err(fault(
            consts::ERR_REQUEST,
            "the request is MPI_REQUEST_NULL",
        ));
    }
    let found = e.request(*request)?;
    if found.is_persistent() {
        if found.kind.get() == Kind::Collective && found.active.get() {
            return Err(fault(
                consts::ERR_REQUEST,
                "an active persistent collective can't be freed; complete it first",
            ));
        }
        e.forget_persistent(*request);
    }
    if found.is_done() {
        let freed = e.free_grequest(found);
        e.release_request(*request, found);
        *request = consts::REQUEST_NULL;
        return freed;
    }
    found.unattended.set(true);
    found.post.tell();
    *request = consts::REQUEST_NULL;
    Ok(())
}

/// `MPI_Cancel`.
pub fn cancel(e: &Engine, request: &mut Handle) -> Result<()> {
    if *request == consts::REQUEST_NULL {
        return Err(fault(
            consts::ERR_REQUEST,
            "the request is MPI_REQUEST_NULL",
        ));
    }
    let found = e.request(*request)?;
    match found.kind.get() {
        Kind::Collective => {
            return Err(fault(
                consts::ERR_REQUEST,
                "a collective operation can't be cancelled",
            ));
        }
        Kind::Generalized => return e.cancel_grequest(found),
        _ if found.is_done() => return Ok(()),
        Kind::Send => e.cancel_send(*request),
        Kind::Recv | Kind::SendRecv => e.cancel_recv(*request),
    }
    Ok(())
}
