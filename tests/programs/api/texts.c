// Version and error texts.
#include "../api.h"

int main(void)
{
    must(strlen(undolr_get_version_string()) > 0);
    for (int error = undolr_error_NONE; error <= undolr_error_RSEQ_IN_USE; error++)
    {
        const char *text = undolr_error_string((undolr_error_t)error);
        must(strlen(text) > 5 && strcmp(text, "<unknown error>") != 0);
        for (int other = 0; other < error; other++)
        {
            must(strcmp(text, undolr_error_string((undolr_error_t)other)) != 0);
        }
    }
    must(strcmp(undolr_error_string((undolr_error_t)8), "<unknown error>") == 0);
    must(strcmp(undolr_error_string((undolr_error_t)-1), "<unknown error>") == 0);
    works(undolr_start(NULL));
    must(strcmp(undolr_error_string((undolr_error_t)99), "<unknown error>") == 0);
    must(strlen(undolr_get_version_string()) > 0);
    works(undolr_save("texts.undo"));
}
