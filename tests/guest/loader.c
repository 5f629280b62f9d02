/* Loads MPI libraries as a plug-in does, each with RTLD_LOCAL, and starts MPI through each in turn.
 * Arguments: paths of libraries.  Late loading is made hard: by then many threads run, so a library that
 * needs static thread-local storage of more than the loader's reserve would not load.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int failures;

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        failures++;
    }
    return found;
}

static void *idle(void *unused)
{
    pause();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *libraries[8];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread, NULL, idle, NULL) != 0)
            return 1;
    for (int i = 1; i < argc && i < 8; i++) {
        libraries[i] = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!libraries[i]) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        if (dlsym(RTLD_DEFAULT, "MPI_Init")) {
            fprintf(stderr, "RTLD_LOCAL leaks symbols\n");
            return 1;
        }
    }
    for (int i = 1; i < argc && i < 8; i++) {
        int (*init)(int *, char ***) = (int (*)(int *, char ***))symbol(libraries[i], "MPI_Init");
        if (failures || init(NULL, NULL) != 0)
            return 1;
        printf("started %s\n", argv[i]);
        fflush(stdout);
    }
    for (int i = 1; i < argc && i < 8; i++) {
        int (*finalize)(void) = (int (*)(void))symbol(libraries[i], "MPI_Finalize");
        if (failures || finalize() != 0)
            return 1;
        dlclose(libraries[i]);
    }
    printf("ok loader\n");
    return 0;
}
