// What starting and ending costs.
int main(void) { return 0; }
