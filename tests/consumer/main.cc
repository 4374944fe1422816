// The smallest user of the installed library: opens a store in the folder it is given, puts, gets.
#include <cstdio>
#include <memory>
#include <string>

#include <lamella/db.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::unique_ptr<lamella::DB> db;
  std::string value;
  lamella::Status status = lamella::DB::Open(lamella::Options(), argv[1], &db);
  if (status.ok()) status = db->Put(lamella::WriteOptions(), "lamella", "a thin plate");
  if (status.ok()) status = db->Get(lamella::ReadOptions(), "lamella", &value);
  if (status.ok()) status = db->Close();
  std::printf("%s %s\n", status.ToString().c_str(), value.c_str());
  return status.ok() && value == "a thin plate" ? 0 : 1;
}
