// Locales, wide characters, conversion between character sets, regular expressions, globbing, date formats.
#include "../program.h"
#include <fnmatch.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <regex.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

int main(void)
{
    printf("%s\n", setlocale(LC_ALL, ""));
    wchar_t wide[40];
    size_t n = mbstowcs(wide, "gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac", 40);
    printf("%zu %lc %lc\n", n, (wint_t)towupper(wide[2]), (wint_t)wide[n - 1]);
    iconv_t convert = iconv_open("ISO-8859-15", "UTF-8");
    must(convert != (iconv_t)-1);
    char in[] = "\xe2\x82\xac", out[8] = {0}, *from = in, *to = out;
    size_t left = 3, room = 8;
    printf("%zu %02x\n", iconv(convert, &from, &left, &to, &room), (unsigned char)out[0]);
    iconv_close(convert);
    regex_t pattern;
    must(regcomp(&pattern, "([a-z]+)=([0-9]+)", REG_EXTENDED) == 0);
    regmatch_t match[3];
    printf("%d %d %d\n", regexec(&pattern, "  key=123 ", 3, match, 0), match[1].rm_so, match[2].rm_eo);
    regfree(&pattern);
    struct tm date = {.tm_year = 124, .tm_mon = 1, .tm_mday = 29, .tm_hour = 12};
    char text[100];
    time_t when = mktime(&date);
    strftime(text, sizeof text, "%A %d %B %Y %H:%M %Z %j", &date);
    printf("%ld %s\n", (long)when, text);
    printf("%d %f %ld\n", fnmatch("*.c", "file.c", 0), strtod("1e3x", NULL), strtol("0x1f", NULL, 0));
    glob_t found;
    printf("%d\n", glob("/etc/pass*d", 0, NULL, &found) == 0 && found.gl_pathc == 1);
}
