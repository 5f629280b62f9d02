/* What is not built yet says so: the class is MPI_ERR_UNSUPPORTED_OPERATION and the text names the function.
 * Where a function has been built in the meantime its check is skipped.
 */
#include "check.h"

static int missing;

static void answer(const char *name, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    SAME(t_class(code), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_Error_string(code, text, &length));
    CHECK(length > 0);
    fprintf(stderr, "%s: %s\n", name, text);
    missing++;
}

/* Errors on files go to the handlers of files, which return unless the program says otherwise: whatever the
 * communicators' handlers are. */
static void files(void)
{
    MPI_File file = MPI_FILE_NULL;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Offset size = 0;
    char byte;
    int code = MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (code == MPI_SUCCESS) {
        OK(MPI_File_close(&file));
        return;
    }
    answer("MPI_File_open", code);
    answer("MPI_File_delete", MPI_File_delete("/nowhere/at/all", MPI_INFO_NULL));
    answer("MPI_File_read", MPI_File_read(file, &byte, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    answer("MPI_File_get_size", MPI_File_get_size(file, &size));
    answer("MPI_File_get_errhandler", MPI_File_get_errhandler(MPI_FILE_NULL, &handler));
    answer("MPI_File_set_errhandler", MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    answer("MPI_File_close", MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    MPI_Win window = MPI_WIN_NULL;
    int memory[4], dims[1] = {1}, periods[1] = {0};
    MPI_Comm cart = MPI_COMM_NULL;
    files();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    int code = MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &window);
    answer("MPI_Win_create", code);
    if (code == MPI_SUCCESS)
        OK(MPI_Win_free(&window));
    code = MPI_Cart_create(MPI_COMM_SELF, 1, dims, periods, 0, &cart);
    answer("MPI_Cart_create", code);
    if (code == MPI_SUCCESS)
        OK(MPI_Comm_free(&cart));
    /* asked in vain, MPI works as before */
    int one = 1, sum = 0;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, t_size);
    return t_done("unsupported");
}
