//! Control variables of the tool information interface: the library's tunables, as `yamabiko info` shows them, each with its unit and where its value comes from.
//!
//! They are constants of this build and machine, the same before, while and after MPI runs, so all may be read and none written.

use std::sync::OnceLock;

use boundary::{Text, TextOut, UserBuf};
use types::{Handle, Result, consts, fault};

use super::tool::{invalid_index, tell, tools};
use crate::state::Engine;

/// A control variable.
struct Control {
    /// `yamabiko_` and the tunable's name, dots and dashes as underlines.
    name: String,
    /// Its unit, and where the value comes from.
    text: String,
    value: u64,
}

/// All of them, in an order that stays.
fn controls() -> &'static [Control] {
    static CONTROLS: OnceLock<Vec<Control>> = OnceLock::new();
    CONTROLS.get_or_init(|| {
        let collectives = cad::TUNABLES.into_iter().chain(cad_ring::tunables());
        let all = fabrics::tunables().chain(collectives);
        all.map(|tunable| Control {
            name: format!("yamabiko_{}", tunable.name.replace(['.', '-'], "_")),
            text: format!("in {}: {}", tunable.unit, tunable.source),
            value: tunable.value,
        })
        .collect()
    })
}

/// The place of an index, and what is there.
fn control(index: i32) -> Result<(usize, &'static Control)> {
    let place = usize::try_from(index).ok();
    let found = place.and_then(|place| Some((place, controls().get(place)?)));
    found.ok_or_else(|| invalid_index("control variable", index))
}

fn of_handle(e: &Engine, handle: usize) -> Result<&'static Control> {
    match tools(e)?.controls.get(handle) {
        Some(place) => Ok(&controls()[place]),
        None => Err(fault(
            consts::T_ERR_INVALID_HANDLE,
            "this is no handle of a control variable",
        )),
    }
}

/// `MPI_T_cvar_get_num`.
pub fn t_cvar_get_num(e: &Engine, num_cvar: &mut i32) -> Result<()> {
    tools(e)?;
    *num_cvar = controls().len() as i32;
    Ok(())
}

/// `MPI_T_cvar_get_info`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn t_cvar_get_info(
    e: &Engine,
    cvar_index: i32,
    name: TextOut,
    name_len: &mut i32,
    verbosity: &mut i32,
    datatype: &mut Handle,
    enumtype: &mut usize,
    desc: TextOut,
    desc_len: &mut i32,
    bind: &mut i32,
    scope: &mut i32,
) -> Result<()> {
    tools(e)?;
    let (_, control) = control(cvar_index)?;
    tell(name, name_len, &control.name);
    tell(desc, desc_len, &control.text);
    *verbosity = consts::T_VERBOSITY_TUNER_DETAIL;
    *datatype = consts::UNSIGNED_LONG_LONG;
    // MPI_T_ENUM_NULL.
    *enumtype = 0;
    *bind = consts::T_BIND_NO_OBJECT;
    *scope = consts::T_SCOPE_CONSTANT;
    Ok(())
}

/// `MPI_T_cvar_get_index`.
pub fn t_cvar_get_index(e: &Engine, name: Text, cvar_index: &mut i32) -> Result<()> {
    tools(e)?;
    let wanted = name.bytes();
    let found = controls().iter().position(|c| c.name.as_bytes() == wanted);
    let found = found.ok_or_else(|| {
        let text = "there is no control variable of this name";
        fault(consts::T_ERR_INVALID_NAME, text)
    })?;
    *cvar_index = found as i32;
    Ok(())
}

/// `MPI_T_cvar_handle_alloc`.
pub fn t_cvar_handle_alloc(
    e: &Engine,
    cvar_index: i32,
    _obj_handle: usize,
    handle: &mut usize,
    count: &mut i32,
) -> Result<()> {
    let tools = tools(e)?;
    let (place, _) = control(cvar_index)?;
    let made = tools.controls.add(place);
    *handle = made.ok_or_else(|| {
        fault(
            consts::T_ERR_OUT_OF_HANDLES,
            "there are too many handles of control variables",
        )
    })?;
    *count = 1;
    Ok(())
}

/// `MPI_T_cvar_handle_free`.
pub fn t_cvar_handle_free(e: &Engine, handle: &mut usize) -> Result<()> {
    of_handle(e, *handle)?;
    e.tools.controls.remove(*handle);
    *handle = 0;
    Ok(())
}

/// `MPI_T_cvar_read`.
pub fn t_cvar_read(e: &Engine, handle: usize, buf: UserBuf) -> Result<()> {
    let value = of_handle(e, handle)?.value;
    if buf.is_null() {
        return Err(fault(consts::T_ERR_INVALID, "buf is NULL"));
    }
    buf.write(&value.to_ne_bytes());
    Ok(())
}

/// `MPI_T_cvar_write`.
pub fn t_cvar_write(e: &Engine, handle: usize, _buf: UserBuf) -> Result<()> {
    let control = of_handle(e, handle)?;
    let text = format!("{} is a constant", control.name);
    Err(fault(consts::T_ERR_CVAR_SET_NEVER, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_have_names_of_their_own_and_say_what_they_count() {
        let mut names: Vec<_> = controls().iter().map(|c| c.name.as_str()).collect();
        assert!(
            names.contains(&"yamabiko_shm_eager_max") && names.contains(&"yamabiko_tcp_window")
        );
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(names.iter().all(|name| name.chars().all(plain)));
        assert!(controls().iter().all(|c| c.text.len() > "in x: ".len()));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
