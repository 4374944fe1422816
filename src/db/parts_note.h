// The parts' note is a small file in a store's directory that says where its pool lies, of a store
// whose pool lies elsewhere (Options::pmem_paths). Who asks for the store without those
// directories, or with others, finds no pool; without the note that would be a lost pool, to be
// repaired, or no store at all, and another would be made beside the one that is there.
//
// It is no part of what a store needs: the pool is found by the options alone, an open that finds
// it brings the note up to date, and that it cannot is no error.
// Threads: one at a time, of a store's directory.
#ifndef LAMELLA_DB_PARTS_NOTE_H_
#define LAMELLA_DB_PARTS_NOTE_H_

#include <string>

#include "file/file_system.h"
#include "lamella/options.h"
#include "lamella/status.h"

namespace lamella {

inline constexpr const char* kPartsNoteName = "PARTS";

/// The pool lies where the options lead.
void KeepPartsNote(FileSystem* files, const std::string& path, const Options& options);
/// It was not. InvalidArgument, naming the directories: it lies elsewhere, or did. IOError.
Status CheckPartsNote(FileSystem* files, const std::string& path, const Options& options);
/// Durable; OK where there is none. IOError.
Status RemovePartsNote(FileSystem* files, const std::string& path);

}  // namespace lamella

#endif  // LAMELLA_DB_PARTS_NOTE_H_
