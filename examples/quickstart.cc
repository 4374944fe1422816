#include <iostream>

#include <lamella/db.h>

int main(int argc, char** argv) {
  std::unique_ptr<lamella::DB> db;
  lamella::Status s = lamella::DB::Open({}, argc > 1 ? argv[1] : "/dev/shm/fruit", &db);
  if (s.ok()) s = db->Put({}, "apple", "green");  // from here on it survives a crash of the process

  lamella::WriteBatch batch;
  batch.Put("cherry", "red");
  batch.Put("plum", "blue");
  // All or nothing; and it survives a power cut, on an ordinary disk too.
  if (s.ok()) s = db->Write({.sync = true}, batch);

  std::string value;
  if (s.ok()) s = db->Get({}, "apple", &value);
  if (s.ok()) {
    std::cout << "apple is " << value << "\n";
    const auto it = db->NewIterator({.lower_bound = "b", .upper_bound = "q"});
    for (it->SeekToFirst(); it->Valid(); it->Next())
      std::cout << it->key() << " is " << it->value() << "\n";
    s = it->status();
  }
  if (s.ok()) s = db->Close();
  if (!s.ok()) std::cerr << s.ToString() << "\n";
  return s.ok() ? 0 : 1;
}
