// Buffered output in all modes, formats, input by line and by scanf, temporary files, order of stdout and stderr.
//@ stdin: 12 apples 3.5
//@ stdin: a second line
#include "../program.h"

int main(void)
{
    int count = 0;
    char word[20], line[100];
    double number = 0;
    int fields = scanf("%d %19s %lf\n", &count, word, &number);
    printf("%d %d %s %g\n", fields, count, word, number);
    printf("%s", fgets(line, sizeof line, stdin));
    printf("%d %d\n", fgets(line, sizeof line, stdin) == NULL, feof(stdin) != 0);
    printf("[%5d|%-8s|%08.3f|%x|%e|%c|%%|%+d|%.3s|%*d|%lld|%zu]\n", 42, "left", 3.14159, 255, 12345.678, 'q', 7, "cutoff", 6, 9, -5000000000ll, sizeof line);
    fprintf(stderr, "error one\n");
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("by lines\n");
    FILE *file = fopen("written", "w+");
    must(file != NULL);
    for (int i = 0; i < 3000; i++)
    {
        fprintf(file, "%d squared is %ld\n", i, (long)i * i);
    }
    fseek(file, 5000, SEEK_SET);
    long at = ftell(file);
    must(fgets(line, sizeof line, file) != NULL);
    printf("%ld %s", at, line);
    fseek(file, 0, SEEK_END);
    printf("%ld\n", ftell(file));
    fclose(file);
    FILE *temporary = tmpfile();
    must(temporary != NULL && fputs("text", temporary) >= 0 && ftell(temporary) == 4);
    char *memory;
    size_t size;
    FILE *stream = open_memstream(&memory, &size);
    fprintf(stream, "in memory %d", 5);
    fclose(stream);
    printf("%s %zu\n", memory, size);
    must(freopen("redirected", "w", stderr) != NULL);
    fprintf(stderr, "error two\n");
    fputs("no newline at the end", stdout);
}
