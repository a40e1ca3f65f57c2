package placement

// A queue is a binary heap whose top is the least item. container/heap calls an interface method
// for each comparison, which here takes longer than the comparison.
type queue[T any] struct {
	items []T
	less  func(a, b T) bool
}

func (q *queue[T]) heapify() {
	for i := len(q.items)/2 - 1; i >= 0; i-- {
		q.sinkDown(i)
	}
}

func (q *queue[T]) top() T { return q.items[0] }

// fixTop restores the order after the top has become greater.
func (q *queue[T]) fixTop() { q.sinkDown(0) }

func (q *queue[T]) popTop() {
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items = q.items[:last]
	q.sinkDown(0)
}

func (q *queue[T]) sinkDown(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.items) {
			return
		}
		if right := child + 1; right < len(q.items) && q.less(q.items[right], q.items[child]) {
			child = right
		}
		if !q.less(q.items[child], q.items[i]) {
			return
		}
		q.items[i], q.items[child] = q.items[child], q.items[i]
		i = child
	}
}
