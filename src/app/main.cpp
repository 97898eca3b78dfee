// The trireme program.
int main() { return 0; }
