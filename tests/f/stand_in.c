/* C procedures in the place of the library's, by which unbuilt.f90 sees what a Fortran routine hands to C: it
 * calls them by their MPI_ names, as it must for profilers. Each notes its arguments as text, which
 * noted() gives to Fortran. */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char text[1000];

static void note(const char *format, ...)
{
    va_list arguments;
    size_t length = strlen(text);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - length, format, arguments);
    va_end(arguments);
}

/* Gives what was noted, padded with blanks, and forgets it. */
void noted_(char *to, size_t room)
{
    size_t length = strlen(text);
    memset(to, ' ', room);
    memcpy(to, text, length < room ? length : room);
    text[0] = 0;
}

static void note_arguments(char **argv)
{
    if (argv == MPI_ARGV_NULL)
        note(" none");
    for (; argv != MPI_ARGV_NULL && *argv; argv++)
        note(" <%s>", *argv);
}

int MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
                   int errcodes[])
{
    note("spawn <%s>", command ? command : "");
    note_arguments(argv);
    note(" %d %d %d", maxprocs, root, info == MPI_INFO_NULL && comm == MPI_COMM_SELF);
    *intercomm = MPI_COMM_WORLD;
    if (errcodes == MPI_ERRCODES_IGNORE)
        note(" ignored");
    else
        errcodes[0] = 42;
    return MPI_SUCCESS;
}

int MPI_Comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[], const MPI_Info infos[], int root,
                            MPI_Comm comm, MPI_Comm *intercomm, int errcodes[])
{
    (void)comm;
    (void)root;
    note("multiple");
    for (int i = 0; i < count; i++) {
        note(" %d <%s>", maxprocs[i], commands[i]);
        note_arguments(argvs == MPI_ARGVS_NULL ? MPI_ARGV_NULL : argvs[i]);
        note(" %d;", infos[i] == MPI_INFO_NULL);
    }
    *intercomm = MPI_COMM_WORLD;
    if (errcodes == MPI_ERRCODES_IGNORE)
        note(" ignored");
    return MPI_SUCCESS;
}

int MPI_Session_get_nth_pset(MPI_Session session, MPI_Info info, int n, int *length, char *name)
{
    const char *all = "mpi://WORLD";
    (void)session;
    (void)info;
    note("pset %d %d", n, *length);
    if (*length > 0)
        snprintf(name, (size_t)*length, "%s", all);
    *length = (int)strlen(all) + 1;
    return MPI_SUCCESS;
}

int MPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag)
{
    static int unit = 8;
    static MPI_Aint size = (MPI_Aint)5 << 32;
    (void)win;
    *flag = 1;
    if (keyval == MPI_WIN_BASE)
        *(void **)value = text;
    else if (keyval == MPI_WIN_SIZE)
        *(void **)value = &size;
    else if (keyval == MPI_WIN_DISP_UNIT)
        *(void **)value = &unit;
    else
        *flag = 0;
    return MPI_SUCCESS;
}

/* The address that the attribute above has. */
void win_base_(MPI_Aint *address)
{
    *address = (MPI_Aint)text;
}

int MPI_File_create_errhandler(MPI_File_errhandler_function *function, MPI_Errhandler *errhandler)
{
    MPI_File file = MPI_FILE_NULL;
    int code = MPI_ERR_IO;
    *errhandler = MPI_ERRORS_RETURN;
    function(&file, &code);
    return MPI_SUCCESS;
}

int MPI_Register_datarep(const char *name, MPI_Datarep_conversion_function *read, MPI_Datarep_conversion_function *write,
                         MPI_Datarep_extent_function *extent, void *state)
{
    char user[4] = "", file[4] = "abc";
    MPI_Aint bytes = 0;
    int code;
    note("datarep <%s>", name);
    note(write == MPI_CONVERSION_FN_NULL ? " none" : " write");
    code = read(user, MPI_INT, 3, file, (MPI_Offset)1 << 40, state);
    note(" %d <%s>", code == MPI_ERR_CONVERSION, user);
    code = extent(MPI_INT, &bytes, state);
    note(" %d %d", code, (int)bytes);
    return MPI_SUCCESS;
}
