// lamella: the command line of a Lamella store. The subcommands are in their own files; here the
// line is parsed.
#include "tools/command.h"

int main(int argc, char** argv) { return lamella::tools::Main(argc, argv); }
