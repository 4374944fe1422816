#include "memtable/memtable.h"

#include "log/record_iterator.h"

namespace lamella {

namespace {

class HeadTreeRecordIterator final : public RecordIterator {
 public:
  HeadTreeRecordIterator(const Pool* pool, const HeadTree* tree)
      : RecordIterator(pool), entries_(tree) {}

  void SeekToFirst() override {
    entries_.SeekToFirst();
    Arrive();
  }
  void SeekToLast() override {
    entries_.SeekToLast();
    Arrive();
  }
  void Seek(const InternalKey& target) override {
    entries_.Seek(target);
    Arrive();
  }
  void SeekForPrev(const InternalKey& target) override {
    entries_.SeekForPrev(target);
    Arrive();
  }
  void Next() override {
    entries_.Next();
    Arrive();
  }
  void Prev() override {
    entries_.Prev();
    Arrive();
  }

 private:
  static constexpr uint32_t kPrefetchRecords = 8;

  void Arrive() {
    status_ = Status::OK();
    if (!entries_.Valid()) {
      StandOn(PmPtr());
      return;
    }
    if (entries_.ahead() >= kPrefetchRecords) {
      PrefetchRecord<2>(pool_->Address(entries_.entry_ahead(kPrefetchRecords).place()));
    }
    StandOn(entries_.entry().place());
  }

  HeadTree::Iterator entries_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewHeadTreeIterator(const Pool* pool, const HeadTree* tree) {
  return std::make_unique<HeadTreeRecordIterator>(pool, tree);
}

std::unique_ptr<InternalIterator> MemTable::NewIterator() const {
  return NewHeadTreeIterator(pool_, &tree_);
}

}  // namespace lamella
