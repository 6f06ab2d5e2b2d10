// A pseudo-terminal of its own: settings, window size, echo.
//@ with: -lutil
#include "../program.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(void)
{
    int master, slave;
    struct winsize size = {.ws_row = 33, .ws_col = 77};
    must(openpty(&master, &slave, NULL, NULL, &size) == 0);
    struct termios settings;
    must(tcgetattr(slave, &settings) == 0);
    printf("%d %d %d\n", isatty(slave), isatty(1), (settings.c_lflag & ECHO) != 0);
    memset(&size, 0, sizeof size);
    must(ioctl(slave, TIOCGWINSZ, &size) == 0);
    printf("%d %d\n", size.ws_row, size.ws_col);
    must(write(master, "line\n", 5) == 5);
    char text[20] = "";
    must(read(slave, text, sizeof text) == 5);
    printf("%s", text);
    int waiting;
    must(ioctl(master, FIONREAD, &waiting) == 0);
    printf("%d\n", waiting);
}
