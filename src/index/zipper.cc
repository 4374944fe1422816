#include "index/zipper.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/assert.h"
#include "base/no_throw.h"
#include "base/prefetch.h"

namespace lamella {

namespace {

// Elements of a window: what a scan of so many fetches fits a processor's second-level cache.
constexpr size_t kWindowElements = 1024;
// Windows that are scanned ahead of the merge, at most: what they fetched is to be found in the
// cache that processors share.
constexpr size_t kWindowsAhead = 4;
// Searches under way at once: about as many lines as a processor fetches at a time.
constexpr size_t kSearches = 16;
// Elements ahead of the searches and of the merge whose own lines are fetched.
constexpr size_t kElementsAhead = 24;
constexpr size_t kStepsAhead = 6;
// A search that goes so many hops in one layer began far from its place; from the head it takes a
// few in each.
constexpr uint32_t kHopsMax = 48;

}  // namespace

// However Merge ends: the thread that scans ahead waits for it.
class Zipper::EndOfWindows {
 public:
  explicit EndOfWindows(Zipper* zipper) : zipper_(zipper) {}
  ~EndOfWindows() { zipper_->EndWindows(); }

 private:
  Zipper* const zipper_;
};

Status Zipper::Merge(std::span<const PmPtr> elements) {
  const EndOfWindows end_of_windows(this);
  elements_ = elements.first(CountUnmerged(elements));
  std::vector<Window> windows;
  for (size_t end = elements_.size(); end > 0;) {
    const size_t begin = WindowBegin(end);
    windows.push_back({.begin = begin, .end = end});
    end = begin;
  }
  if (verify_) {  // keeps I6
    for (Window& window : windows) {
      Window checked{.begin = window.begin, .end = window.end};
      Status s = Scan(&checked);
      if (!s.ok()) return s;
    }
  }
  const size_t count = windows.size();
  {
    const MutexLock lock(&mu_);
    windows_ = std::move(windows);
    cut_ = true;
  }
  changed_.notify_all();
  Status s;
  for (size_t i = 0; s.ok() && i < count; i++) {
    Window* window = AwaitScanned(i);
    s = window->status;
    if (s.ok()) s = MergeWindow(window);
    window->steps = {};  // their memory
    window->skipped = {};
  }
  if (!s.ok()) return s;
  persister_->Fence();  // the marks and the upper links (keeps I3)
  return s;
}

// The window, scanned: here, unless the other thread has begun to.
Zipper::Window* Zipper::AwaitScanned(size_t index) {
  Window* window;
  {
    const MutexLock lock(&mu_);
    merging_ = index;
    changed_.notify_all();
    window = &windows_[index];
    if (window->state != Window::kUnscanned) {
      while (window->state != Window::kScanned) changed_.wait(mu_);
      return window;
    }
    window->state = Window::kScanning;
  }
  window->status = Scan(window);
  return window;
}

// The other thread reads the elements, which are the caller's.
void Zipper::EndWindows() {
  const MutexLock lock(&mu_);
  ended_ = true;
  changed_.notify_all();
  while (scanning_ahead_) changed_.wait(mu_);
  windows_.clear();
}

void Zipper::ScanAhead(EpochDomain* readers) {
  mu_.lock();
  for (size_t index = 1;;) {
    while (!ended_ && (!cut_ || index > merging_ + kWindowsAhead)) changed_.wait(mu_);
    index = std::max(index, merging_ + 1);
    while (index < windows_.size() && windows_[index].state != Window::kUnscanned) index++;
    if (ended_ || index >= windows_.size()) break;
    if (index > merging_ + kWindowsAhead) continue;
    Window* const window = &windows_[index++];
    window->state = Window::kScanning;
    scanning_ahead_ = true;
    mu_.unlock();
    {
      const EpochPin pin(readers);
      window->status = NoThrow([&] { return Scan(window); });
    }
    mu_.lock();
    window->state = Window::kScanned;
    scanning_ahead_ = false;
    changed_.notify_all();
  }
  mu_.unlock();
}

// How many elements come before those that a merge had linked when it was cut short (I2). Elements
// that are marked were left out by it, and say nothing; of the others those in front are not
// linked, and those after are.
size_t Zipper::CountUnmerged(std::span<const PmPtr> elements) const {
  const auto is_linked = [&](PmPtr place) {
    const InternalKey key = lower_->At(place)->internal_key();
    const PmPtr start = observer_->Nearby(JustBefore(key), 1, 0).place;
    return lower_->FindAtOrAfter(key, start, nullptr) == place;
  };
  size_t low = 0;
  size_t high = elements.size();
  while (low < high) {
    // The last first: of a merge that begins anew it is the only one to be looked at.
    const size_t middle = high == elements.size() ? high - 1 : low + (high - low) / 2;
    size_t at = middle;
    while (at < high && lower_->At(elements[at])->obsolete()) at++;
    if (at == high || is_linked(elements[at])) {
      high = middle;
    } else {
      low = at + 1;
    }
  }
  return low;
}

// The versions of a key are not torn apart: which of them are left out shows in the window alone.
size_t Zipper::WindowBegin(size_t end) const {
  size_t begin = end - std::min(end, kWindowElements);
  while (begin > 0 &&
         lower_->At(elements_[begin])->key() == lower_->At(elements_[begin - 1])->key()) {
    begin--;
  }
  return begin;
}

// The elements that are to be linked become steps.
void Zipper::TakeSteps(Window* window) const {
  const Record* newest = nullptr;  // the last element that was not skipped
  window->steps.reserve(window->end - window->begin);
  for (size_t i = window->begin; i < window->end; i++) {
    if (i + kElementsAhead < window->end) PrefetchHeader(lower_->At(elements_[i + kElementsAhead]));
    const PmPtr place = elements_[i];
    const Record* element = lower_->At(place);
    if (newest != nullptr && newest->key() == element->key() &&
        !observer_->Needed(element->sequence(), newest->sequence())) {
      window->skipped.push_back(place);
      continue;
    }
    newest = element;
    window->steps.push_back({.element = place,
                             .lane = lower_->Lane(place),
                             .layers = static_cast<uint16_t>(element->height())});
  }
}

void Zipper::BeginAtHead(Search* search) const {
  search->at = PmPtr();
  search->bound = PmPtr();
  search->layer = kHeightMax - 1;
  search->hops = 0;
  search->guided = false;
  search->step->known = kHeightMax;
  search->next = lower_->Next(search->at, search->step->lane, search->layer);
  if (search->next && !search->next.damaged()) PrefetchHeader(lower_->At(search->next));
}

void Zipper::Begin(Step* step, Search* search) const {
  const Record* element = lower_->At(step->element);
  *search = Search{};
  search->step = step;
  search->key = element->internal_key();
  const InternalKey before = JustBefore(search->key);
  const ZipperObserver::Near near = observer_->Nearby(before, 1, step->lane);
  const bool tall_enough = near.height >= step->layers && lower_->Lane(near.place) == step->lane;
  const ZipperObserver::Near tall =
      step->layers == 1 || tall_enough ? near : observer_->Nearby(before, step->layers, step->lane);
  search->bottom = near.place;
  if (near.place) PrefetchHeader(lower_->At(near.place));
  if (!tall.place) return BeginAtHead(search);
  if (tall.place != near.place) PrefetchHeader(lower_->At(tall.place));
  search->at = tall.place;
  search->guided = true;
  // A layer more than is wanted of one, so that few hops are made in layer 0; not all that the
  // guide has, since in each the first hop goes too far.
  const bool own_lane = lower_->Lane(tall.place) == step->lane;
  search->layer = own_lane ? std::min(std::max<uint32_t>(step->layers, 2), tall.height) - 1 : 0;
  step->known = static_cast<uint16_t>(search->layer + 1);
  // Its own line is not there yet: the next visit reads its link.
  search->next = tall.place;
}

// Goes on with what has arrived, until it must wait for a line. True: the place is found, or
// damage.
bool Zipper::Advance(Search* search) const {
  Search& s = *search;
  for (;;) {
    if (s.next.damaged()) [[unlikely]] {
      s.step->next = s.next;
      return true;
    }
    if (s.next && s.next == s.at) {  // the guide: it is before the key
    } else if (s.next && s.next != s.bound && lower_->IsBefore(s.next, s.key)) {
      s.at = s.next;
      if (++s.hops > kHopsMax && s.guided) {
        BeginAtHead(search);
        return false;
      }
    } else {
      s.bound = s.next;
      s.step->befores[s.layer] = s.at;
      if (s.layer == 0) {
        s.step->next = s.next;
        return true;
      }
      s.layer--;
      s.hops = 0;
      if (s.layer == 0 && s.bottom && s.bottom != s.at &&
          (!s.at || lower_->IsBefore(s.at, lower_->At(s.bottom)->internal_key()))) {
        s.at = s.bottom;
      }
    }
    s.next = lower_->Next(s.at, s.step->lane, s.layer);
    if (!s.next || s.next == s.bound || s.next.damaged()) continue;
    PrefetchHeader(lower_->At(s.next));
    return false;
  }
}

Status Zipper::VerifyNeighbours(const Step& step) const {
  const auto verify = [this](PmPtr place) {
    return place ? VerifyRecord(*lower_->pool(), place) : Status::OK();
  };
  Status s = verify(step.element);
  if (s.ok()) s = verify(step.befores[0]);
  if (s.ok()) s = verify(step.next);
  for (uint32_t layer = 1; s.ok() && layer < step.layers; layer++) {
    s = verify(step.befores[layer]);
    if (s.ok()) s = verify(lower_->Next(step.befores[layer], step.lane, layer));
  }
  return s;
}

// Finds the place of each element of a window. The lists do not change in this phase.
Status Zipper::Scan(Window* window) const {
  for (size_t i = window->begin; verify_ && i < window->end; i++) {
    Status s = VerifyRecord(*lower_->pool(), elements_[i]);
    if (!s.ok()) return s;
  }
  TakeSteps(window);
  return FindSteps(window->steps, [this](const Step& step) {
    if (step.next.damaged()) return DescribeDamage(*lower_->pool(), step.next);
    return verify_ ? VerifyNeighbours(step) : Status::OK();
  });
}

// Tells each place as it is found, until `found` fails.
template <class Found>
Status Zipper::FindSteps(std::span<Step> steps, const Found& found) const {
  std::array<Search, kSearches> searches;
  size_t begun = 0;
  size_t under_way = 0;
  for (Search& search : searches) {
    if (begun == steps.size()) break;
    Begin(&steps[begun++], &search);
    under_way++;
  }
  for (size_t turn = 0; under_way > 0; turn = (turn + 1) % kSearches) {
    Search& search = searches[turn];
    if (search.step == nullptr || !Advance(&search)) continue;
    Status s = found(*search.step);
    if (!s.ok()) return s;
    search.step = nullptr;
    if (begun == steps.size()) {
      under_way--;
      continue;
    }
    if (begun + kElementsAhead < steps.size())
      PrefetchHeader(lower_->At(steps[begun + kElementsAhead].element));
    Begin(&steps[begun++], &search);
  }
  return Status::OK();
}

void Zipper::FindPlaces(std::span<Place> places) const {
  std::vector<Step> steps;
  for (size_t from = 0; from < places.size(); from += kWindowElements) {
    const std::span<Place> window =
        places.subspan(from, std::min(kWindowElements, places.size() - from));
    steps.clear();
    for (const Place& place : window)
      steps.push_back({.element = place.element, .lane = lower_->Lane(place.element)});
    // which damage there is, the places say
    (void)FindSteps(steps, [](const Step&) { return Status::OK(); }).ok();
    for (size_t i = 0; i < window.size(); i++) {
      window[i].before = steps[i].befores[0];
      window[i].next = steps[i].next;
    }
  }
}

void Zipper::FetchStep(const Step& step) const {
  PrefetchForWrite(lower_->At(step.element));
  const uint32_t height = lower_->At(step.element)->height();
  for (uint32_t layer = 0; layer < height; layer++) {
    if (step.befores[layer]) PrefetchForWrite(lower_->At(step.befores[layer]));
  }
  if (step.next) PrefetchRecord<1>(lower_->At(step.next));
}

Status Zipper::MergeWindow(Window* window) {
  const std::vector<Step>& steps = window->steps;
  skipped_ = &window->skipped;
  obsolete_.reserve(steps.size() + skipped_->size());
  for (const PmPtr place : *skipped_) lower_->At(place)->MarkObsolete(persister_);
  // a redo will not come to those in the tail again (keeps I3)
  if (!skipped_->empty()) persister_->Fence();
  Status s;
  for (size_t i = steps.size(); s.ok() && i-- > 0;) {
    if (i >= kStepsAhead) FetchStep(steps[i - kStepsAhead]);
    // what became obsolete before is told of below
    s = NoThrow([&] { return MergeStep(steps[i]); });
  }
  if (s.ok()) {
    for (const PmPtr place : *skipped_) obsolete_.push_back({place, false});
  }
  observer_->OnObsolete(obsolete_);
  obsolete_.clear();
  return s;
}

// Persist order, and what a crash after each step leaves (zipper_crash_test cuts at each):
//   1  the element's links are durable      not in the lower list; the upper list still leads to it
//   2  the link to it is durable            in the lower list, layer 0: merged
//   3  upper links, marks: flushed          durable with the next step's fence; shortcuts and hints
Status Zipper::MergeStep(const Step& step) {
  Record* element = lower_->At(step.element);
  const PmPtr* befores = step.befores;
  for (uint32_t layer = 1; layer < element->height(); layer++) {
    PmPtr next;  // it would be bypassed, and never be found again to be unlinked
    if (!DecodeLink(lower_->Link(befores[layer], step.lane, layer)->load(), &next))
      return DescribeDamage(*lower_->pool(), PmPtr::DamagedAt(befores[layer]));
  }
  const PmPtr after = DropObsolete(step, lower_->Next(befores[0], step.lane, 0));
  if (after.damaged()) return DescribeDamage(*lower_->pool(), after);
  for (uint32_t layer = 1; layer < element->height(); layer++) {
    persister_->Store(element->link(layer),
                      EncodeLink(lower_->Next(befores[layer], step.lane, layer)));
  }
  persister_->Store(element->link(0), EncodeLink(after));
  persister_->Persist(element->link(0), element->height() * sizeof(PmWord));
  persister_->Publish(lower_->Link(befores[0], step.lane, 0), EncodeLink(step.element));
  LinkInLayers(step.element, befores);
  observer_->OnLinked(element, step.element);
  return Status::OK();
}

// Takes the versions after `newer` that nobody needs out of the list; returns what then follows
// `newer`. Their layer-0 link is bypassed by the caller's link; a version that is kept stays ahead
// of those after it. Where a link on the way is damaged that is what it returns, and nothing is
// changed: what was marked and told of before that would stay linked.
PmPtr Zipper::DropObsolete(const Step& step, PmPtr older) {
  const Record* newer = lower_->At(step.element);
  size_t versions = 0;
  PmPtr after = older;
  PmPtr befores[kHeightMax];
  for (; after && !after.damaged() && lower_->At(after)->key() == newer->key(); versions++)
    after = lower_->Next(after, 0, 0);
  if (after.damaged()) return after;
  for (PmPtr at = older; at != after; at = lower_->Next(at, 0, 0)) {
    if (!FindLinks(at, &step, befores).ok()) return PmPtr::DamagedAt(at);
  }
  // What is told at the window's end has its room before the first of them is changed.
  const size_t told_max = obsolete_.size() + versions + skipped_->size();
  if (told_max > obsolete_.capacity()) obsolete_.reserve(2 * told_max);
  uint64_t newer_sequence = newer->sequence();
  PmPtr first_kept;
  PmPtr last_kept;
  while (older != after) {
    Record* record = lower_->At(older);
    const PmPtr next = lower_->Next(older, 0, 0);
    if (observer_->Needed(record->sequence(), newer_sequence)) {
      if (!first_kept) first_kept = older;
      last_kept = older;
    } else {
      // Of what is before it some may be unlinked by now.
      if (versions > 1 && record->height() > 1) FindUpper(older, &step, befores);
      UnlinkUpper(older, befores);
      if (record->obsolete())
        std::erase(*skipped_,
                   older);  // a redo: linked before the crash, now a newer one may drop it
      record->MarkObsolete(persister_);
      if (last_kept) {
        // keeps I4; and a redo does not come to what is unlinked, to mark it
        persister_->Fence();
        persister_->Store(lower_->Link(last_kept, 0, 0), EncodeLink(next));
        persister_->Flush(lower_->Link(last_kept, 0, 0), sizeof(PmWord));
      }
      obsolete_.push_back({older, true});
    }
    newer_sequence = record->sequence();
    older = next;
  }
  return first_kept ? first_kept : after;
}

void Zipper::FindUpper(PmPtr element, const Step* near, PmPtr* befores) const {
  const Record* record = lower_->At(element);
  const uint32_t lane = lower_->Lane(element);
  const uint32_t height = record->height();
  const InternalKey key = record->internal_key();
  const bool near_knows = near != nullptr && near->lane == lane && near->known >= height;
  PmPtr at;
  for (uint32_t layer = near_knows ? height : kHeightMax; layer-- > 1;) {
    if (near_knows) at = near->befores[layer];
    for (PmPtr next = lower_->Next(at, lane, layer);
         next && next != element && lower_->IsBefore(next, key);
         next = lower_->Next(at, lane, layer)) {
      at = next;
    }
    if (layer < height) befores[layer] = at;
  }
}

// A link or a key that is damaged leads the search elsewhere. What stayed linked there would have
// room that is given back, and merges would begin at it.
Status Zipper::FindLinks(PmPtr element, const Step* near, PmPtr* befores) const {
  const uint32_t height = lower_->At(element)->height();
  if (height < 2) return Status::OK();
  FindUpper(element, near, befores);
  const uint32_t lane = lower_->Lane(element);
  for (uint32_t layer = height; layer-- > 1;) {
    const PmPtr before = befores[layer];
    const uint64_t link = lower_->Link(before, lane, layer)->load(std::memory_order_relaxed);
    if (link == EncodeLink(element)) continue;
    // A crash left it out of this layer, where what is before its place and after it is sound.
    PmPtr after;
    if (!DecodeLink(link, &after)) return DescribeDamage(*lower_->pool(), PmPtr::DamagedAt(before));
    for (const PmPtr place : {before, after}) {
      Status s = place ? VerifyRecord(*lower_->pool(), place) : Status::OK();
      if (!s.ok()) return s;
    }
  }
  return Status::OK();
}

// From the lowest layer up, each durable before the next (keeps I5); the last is flushed, not
// fenced.
void Zipper::LinkInLayers(PmPtr element, const PmPtr* befores) {
  const uint32_t lane = lower_->Lane(element);
  const uint32_t height = lower_->At(element)->height();
  for (uint32_t layer = 1; layer < height; layer++) {
    if (layer > 1) persister_->Fence();
    PmWord* link = lower_->Link(befores[layer], lane, layer);
    persister_->Store(link, EncodeLink(element));
    persister_->Flush(link, sizeof(*link));
  }
}

// From the highest layer down, each durable before the next (keeps I5). True if there was a link to
// take out: the last is flushed, not fenced. `befores`: FindUpper's.
bool Zipper::UnlinkUpper(PmPtr element, const PmPtr* befores) {
  bool unlinked = false;
  const uint32_t lane = lower_->Lane(element);
  for (uint32_t layer = lower_->At(element)->height(); layer-- > 1;) {
    PmWord* link = lower_->Link(befores[layer], lane, layer);
    // a crash left it out of this layer
    if (link->load(std::memory_order_relaxed) != EncodeLink(element)) continue;
    if (unlinked) persister_->Fence();
    persister_->Store(link, EncodeLink(lower_->Next(element, lane, layer)));
    persister_->Flush(link, sizeof(*link));
    unlinked = true;
  }
  return unlinked;
}

bool Zipper::Unlink(PmPtr before, PmPtr element) {
  const PmPtr next = lower_->Next(element, 0, 0);
  if (next.damaged()) return false;
  PmPtr befores[kHeightMax];
  if (!FindLinks(element, nullptr, befores).ok()) return false;
  if (UnlinkUpper(element, befores)) persister_->Fence();  // keeps I4
  PmWord* link = lower_->Link(before, 0, 0);
  LAMELLA_CHECK(link->load(std::memory_order_relaxed) == EncodeLink(element));
  persister_->Store(link, EncodeLink(next));
  persister_->Flush(link, sizeof(*link));
  return true;
}

// A key that is damaged led the search to another place than its own.
Status Zipper::DescribeAstray(const Place& found) const {
  for (const PmPtr place : {found.before, found.next}) {
    Status s = place ? VerifyRecord(*lower_->pool(), place) : Status::OK();
    if (!s.ok()) return s;
  }
  return Status::Corruption("the record at " + DescribePlace(*lower_->pool(), found.element) +
                            " is not found where its key belongs; run `lamella repair` to rebuild "
                            "the index from the records");
}

// Persist order, and what a crash after each step leaves:
//   1  the originals are out of the upper     as before, a few shortcuts less
//      layers, the copies' layer-0 links set
//   2  some layer-0 links lead to copies      each run of neighbours is swung by one store: linked
//                                             whole, old or new
//   3  the copies are in the upper layers     shortcuts again
// A reader that stands on an original goes on along originals until it is back in the list.
Status Zipper::Replace(std::span<const Move> moves) {
  std::vector<Place> places;
  places.reserve(moves.size());
  for (const Move& move : moves) places.push_back({.element = move.from});
  FindPlaces(places);
  std::vector<Step> tall;  // the originals that are in upper layers too
  std::vector<size_t> tall_moves;
  for (size_t i = 0; i < moves.size(); i++) {
    for (const PmPtr found : {places[i].next, lower_->Next(moves[i].from, 0, 0)}) {
      if (found.damaged()) return DescribeDamage(*lower_->pool(), found);
    }
    if (places[i].next != moves[i].from) return DescribeAstray(places[i]);
    const uint32_t height = lower_->At(moves[i].from)->height();
    LAMELLA_CHECK(height == lower_->At(moves[i].to)->height());
    if (height < 2) continue;
    tall.push_back({.element = moves[i].from,
                    .lane = lower_->Lane(moves[i].from),
                    .layers = static_cast<uint16_t>(height)});
    tall_moves.push_back(i);
  }
  Status s = FindSteps(tall, [this](const Step& step) {
    return step.next.damaged() ? DescribeDamage(*lower_->pool(), step.next) : Status::OK();
  });
  for (size_t t = 0; s.ok() && t < tall.size(); t++)
    s = FindLinks(tall[t].element, &tall[t], tall[t].befores);
  if (!s.ok()) return s;
  std::unordered_map<uint64_t, PmPtr> copies;
  for (size_t t = 0; t < tall.size(); t++)
    copies.emplace(tall[t].element.word, moves[tall_moves[t]].to);
  // From here on nothing needs memory, so that all is done or nothing.
  // The last first: the predecessors that were found are then still linked.
  for (size_t t = tall.size(); t-- > 0;) {
    if (t >= kStepsAhead) FetchStep(tall[t - kStepsAhead]);
    UnlinkUpper(tall[t].element, tall[t].befores);
  }
  for (size_t i = moves.size(); i-- > 0;) {
    Record* copy = lower_->At(moves[i].to);
    const bool run_goes_on = i + 1 < moves.size() && places[i + 1].before == moves[i].from;
    persister_->Store(copy->link(0), EncodeLink(run_goes_on ? moves[i + 1].to
                                                            : lower_->Next(moves[i].from, 0, 0)));
    for (uint32_t layer = 1; layer < copy->height(); layer++)
      persister_->Store(copy->link(layer), kEndLink);
    persister_->Flush(copy->link(0), copy->height() * sizeof(PmWord));
  }
  persister_->Fence();
  for (size_t i = 0; i < moves.size(); i++) {
    if (i > 0 && places[i].before == moves[i - 1].from) continue;  // not the first of its run
    PmWord* link = lower_->Link(places[i].before, 0, 0);
    persister_->Store(link, EncodeLink(moves[i].to));
    persister_->Flush(link, sizeof(*link));
  }
  persister_->Fence();
  // The first first, each after what is linked there now: where an original was before it, its
  // copy.
  for (size_t t = 0; t < tall.size(); t++) {
    if (t + kStepsAhead < tall.size()) FetchStep(tall[t + kStepsAhead]);
    Step& step = tall[t];
    for (uint32_t layer = 1; layer < step.layers; layer++) {
      const auto copy = copies.find(step.befores[layer].word);
      if (copy != copies.end()) step.befores[layer] = copy->second;
    }
    LinkUpper(moves[tall_moves[t]].to, step);
  }
  return Status::OK();
}

// Links an element that layer 0 holds durably into the layers above.
void Zipper::LinkUpper(PmPtr element, const Step& near) {
  Record* record = lower_->At(element);
  const uint32_t lane = lower_->Lane(element);
  PmPtr befores[kHeightMax];
  FindUpper(element, &near, befores);
  for (uint32_t layer = 1; layer < record->height(); layer++) {
    persister_->Store(record->link(layer), EncodeLink(lower_->Next(befores[layer], lane, layer)));
  }
  persister_->Persist(record->link(1), (record->height() - 1) * sizeof(PmWord));
  LinkInLayers(element, befores);
}

}  // namespace lamella
