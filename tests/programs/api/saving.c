// undolr_save: repeatable, each file complete, errors leave what was there.
#include "../api.h"

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    must(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

int main(void)
{
    works(undolr_start(NULL));
    works(undolr_save("first.undo"));
    printf("between\n");
    char here[4096];
    must(getcwd(here, sizeof here - 20) != NULL);
    strcat(here, "/second.undo");
    works(undolr_save(here)); // absolute
    put("first.undo", "old");
    works(undolr_save("first.undo")); // replaced
    struct stat status;
    must(stat("first.undo", &status) == 0 && status.st_size > 1000 && (status.st_mode & 0777) == 0600);

    fails(undolr_save(NULL), EINVAL);
    fails(undolr_save(""), EINVAL);
    fails(undolr_save((const char *)8), EINVAL);
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    fails(undolr_save(name), EINVAL);
    name[300] = 0;
    fails(undolr_save(name), ENAMETOOLONG);
    fails(undolr_save("missing/a.undo"), ENOENT);
    must(mkdir("directory.undo", 0700) == 0);
    fails(undolr_save("directory.undo"), EISDIR);
    must(rmdir("directory.undo") == 0);
    put("file", "old");
    fails(undolr_save("file/a.undo"), ENOTDIR);
    works(undolr_save("third.undo"));

    // A name that ends where memory does.
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(munmap(page + 4096, 4096) == 0);
    strcpy(page + 4096 - sizeof "edge.undo", "edge.undo");
    works(undolr_save(page + 4096 - sizeof "edge.undo"));
    page[4095] = 'x';
    fails(undolr_save(page + 4096 - 5), EINVAL); // no end
    works(undolr_stop(NULL));
    must(remove("file") == 0);
    must(exists("second.undo") && exists("third.undo") && exists("edge.undo"));
}
