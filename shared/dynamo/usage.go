package dynamo

import (
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Usage is what the state has cost since it was created, as DynamoDB reports it. Writes that a
// condition refused are counted in Refused alone: DynamoDB charges for them but does not report how
// much (a unit per KB, two in a transaction).
type Usage struct {
	ReadUnits  float64
	WriteUnits float64
	Calls      int // that succeeded
	Refused    int // by a condition
	Retries    int
}

// Usage returns the cost so far.
func (s *State) Usage() Usage {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return s.usage.sum
}

// counter adds up a [Usage] from several goroutines.
type counter struct {
	mu  sync.Mutex
	sum Usage
}

// updateUsage makes a change under the lock.
func (c *counter) updateUsage(change func(*Usage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.sum)
}

// countRead counts a call, and its price if the answer has it: emulators may leave it out.
func (c *counter) countRead(used *types.ConsumedCapacity) {
	c.updateUsage(func(u *Usage) {
		u.Calls++
		if used != nil {
			u.ReadUnits += aws.ToFloat64(used.CapacityUnits)
		}
	})
}

// countWrite counts a write. A transaction that is sent again under its token costs read units
// instead: DynamoDB only looks the token up.
func (c *counter) countWrite(used *types.ConsumedCapacity) {
	c.updateUsage(func(u *Usage) {
		u.Calls++
		switch {
		case used == nil:
		case used.WriteCapacityUnits == nil && used.ReadCapacityUnits == nil:
			u.WriteUnits += aws.ToFloat64(used.CapacityUnits)
		default:
			u.WriteUnits += aws.ToFloat64(used.WriteCapacityUnits)
			u.ReadUnits += aws.ToFloat64(used.ReadCapacityUnits)
		}
	})
}

func (c *counter) countRefused() { c.updateUsage(func(u *Usage) { u.Refused++ }) }
func (c *counter) countRetry()   { c.updateUsage(func(u *Usage) { u.Retries++ }) }
