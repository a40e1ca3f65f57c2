package packing

import (
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// A Scorer scores instances by least fragmentation. The score of a task on an instance has two
// parts:
//
//   - what the task adds to the waste of the instance: small if what remains can still be used (see
//     [demandMix.wasteOfShape])
//   - the price of the instance's pool: high if tasks want it that can go to few other pools (see
//     [learnedMix.computePrices])
//
// Both depend on the tasks that run and wait, which are learned again as they change (see
// [Scorer.relearnAfter]).
//
// The loss of GPUs to tasks that do not fit is that of Weng et al., "Beware of Fragmentation:
// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023). Idle CPU
// and memory, and the prices, are not in the paper.
type Scorer struct {
	snap            *snapshot.Snapshot
	mix             *learnedMix
	epochStart      uint64 // the snapshot's change count when the epoch began
	epochLength     uint64 // in changes of the snapshot
	epoch           uint64 // counts how often the mix was learned
	seq             uint64 // the snapshot's change count that shapeOfInstance reflects
	onChange        func(index int, owner *snapshot.Owner)
	shapeOfInstance []int32 // by index of the instance, 0 if it must be found out
	shapes          freeShapes
	scores          []cachedScore
	needsNumbers    map[cluster.Resources]int32
	lastNeeds       cluster.Resources // needs that were asked for last
	lastNumber      int32             // their number
}

// NewScorer returns a scorer of the snapshot's instances that has learned nothing yet.
func NewScorer(s *snapshot.Snapshot) *Scorer {
	p := &Scorer{snap: s}
	p.onChange = func(index int, _ *snapshot.Owner) {
		if index < len(p.shapeOfInstance) {
			p.shapeOfInstance[index] = 0
		}
	}
	return p
}

// Epoch learns the mix again if enough has changed, and returns a number that changes whenever it
// does. Scores are valid until the snapshot or the epoch changes.
func (s *Scorer) Epoch() uint64 {
	now := s.snap.ChangeSeq()
	if s.mix == nil || now-s.epochStart >= s.epochLength {
		last := s.mix
		s.mix = learnFromSnapshot(s.snap, last)
		s.epochStart, s.epochLength = now, s.relearnAfter(last)
		s.epoch++
		s.ForgetScores()
		s.needsNumbers, s.lastNeeds, s.lastNumber = map[cluster.Resources]int32{}, cluster.Resources{}, -1
	} else if s.seq != now && !s.snap.ChangedSince(s.seq, s.onChange) {
		clear(s.shapeOfInstance)
	}
	s.seq = now
	return s.epoch
}

// relearnAfter returns how many changes of instances must pass before the mix is learned again.
// While the GPU tasks grow by more than half in an epoch, it is their number, so that a filling
// cluster learns often. After that it doubles each time, up to the number of tasks and instances to
// look at: learning then costs next to nothing per change.
func (s *Scorer) relearnAfter(last *learnedMix) uint64 {
	tasks := uint64(max(1, s.mix.taskCount))
	if last == nil || 2*s.mix.taskCount > 3*last.taskCount {
		return tasks
	}
	return max(tasks, min(2*s.epochLength, uint64(s.snap.TaskCount()+len(s.snap.InstancesByIndex()))))
}

// ForgetScores drops everything that can be computed again.
func (s *Scorer) ForgetScores() {
	s.shapes.resetShapes()
	clear(s.shapeOfInstance)
	if s.scores == nil {
		s.scores = make([]cachedScore, 1<<scoreBits)
	}
	clear(s.scores)
}

// A cachedScore is the score of tasks with the same needs on instances of the same free shape.
// Shape 0 is none.
type cachedScore struct {
	shape, needs int32
	score        float64
}

// scoreBits sizes the cache of scores. Each score has one slot, and the latest one stays.
const scoreBits = 17

const (
	// priceWeight is how much the price of a pool counts against fragmentation. A higher one keeps
	// more room for tasks that can go to few pools, and leaves more of it empty.
	priceWeight = 0.6
	// fitWeight is how much best fit counts. It decides between instances with nearly the same
	// fragmentation.
	fitWeight = 0.01
)

// Score returns the cost of placing a task with these needs on the instance, where it must fit. The
// lowest is the best. [Scorer.Epoch] must have been called since the snapshot changed.
func (s *Scorer) Score(v *snapshot.InstanceView, needs *cluster.Resources) float64 {
	if s.shapes.hasReachedLimit() {
		s.ForgetScores()
	}
	number := s.needsNumber(needs)
	from := s.shapeOfView(v)
	cached := &s.scores[(uint64(from)<<32|uint64(number))*0x9e3779b97f4a7c15>>(64-scoreBits)]
	if cached.shape == from && cached.needs == number {
		return cached.score
	}
	to := s.shapes.shapeAfterTask(from, needs)
	score := s.shapeWaste(to) - s.shapeWaste(from) + fitWeight*s.shapes.freeInGPUs(to)
	if pool := s.shapes.all[from].pool; pool != noPool {
		score += priceWeight * s.mix.pools[pool].price * float64(needs.GPUs*needs.PerGPU())
	}
	*cached = cachedScore{from, number, score}
	return score
}

// shapeOfView returns the free shape of the instance. v may be a placement's own view of it, which
// the snapshot does not have.
func (s *Scorer) shapeOfView(v *snapshot.InstanceView) int32 {
	committed := s.snap.InstancesByIndex()[v.Index] == v
	if committed && v.Index < len(s.shapeOfInstance) && s.shapeOfInstance[v.Index] > 0 {
		return s.shapeOfInstance[v.Index]
	}
	id := s.shapes.shapeNumberOf(s.mix.poolOfInstance(v), v)
	if committed {
		s.shapeOfInstance = append(s.shapeOfInstance, make([]int32, max(0, v.Index+1-len(s.shapeOfInstance)))...)
		s.shapeOfInstance[v.Index] = id
	}
	return id
}

// needsNumber assigns a number to the needs.
func (s *Scorer) needsNumber(needs *cluster.Resources) int32 {
	if s.lastNumber >= 0 && s.lastNeeds == *needs {
		return s.lastNumber
	}
	n, ok := s.needsNumbers[*needs]
	if !ok {
		n = int32(len(s.needsNumbers))
		s.needsNumbers[*needs] = n
	}
	s.lastNeeds, s.lastNumber = *needs, n
	return n
}

func (s *Scorer) shapeWaste(id int32) float64 {
	shape := &s.shapes.all[id]
	if !shape.wasteKnown {
		shape.wasteKnown = true
		if shape.pool != noPool && shape.freeMilli > 0 {
			shape.waste = s.mix.demandMixOf(shape.pool).wasteOfShape(shape, s.shapes.partialDevices(shape))
		}
	}
	return shape.waste
}
