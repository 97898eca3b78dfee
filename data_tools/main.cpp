// The trireme-data program.
int main() { return 0; }
