package rebalance

import (
	"slices"
	"testing"
)

// fragmented is a problem in which a task of 8 fits nowhere, although 12 are free: each of three
// instances of 10 has two tasks of 3.
func fragmented() *Problem {
	p := &Problem{Resources: []Resource{{Overload: 1}}, Services: make([]Service, 7)}
	for i := range int32(4) {
		size := int64(10)
		if i == 3 {
			size = 8
		}
		p.Instances = append(p.Instances, Instance{Zone: i, Capacity: []int64{size}, Safety: []int64{size}})
	}
	for t := range int32(6) {
		p.Tasks = append(p.Tasks, Task{Service: t, Start: t / 2, Needs: []int64{3}})
	}
	p.Tasks = append(p.Tasks, Task{Service: 6, Start: 3, Needs: []int64{8}})
	return p
}

// Room for a large task is made on an instance by lifting tasks there. All then find an instance.
func TestMakeRoomLiftsTasks(t *testing.T) {
	found := 0
	for seed := range uint64(50) {
		s := newAnnealing(fragmented(), seed)
		if !s.makeRoom(6, 0) {
			t.Fatalf("seed %d: no room is made", seed)
		}
		if s.at[6] != 0 || len(s.lifted) != 3 || s.lifted[0] != (undoneMove{6, 3}) ||
			s.at[0] != nowhere || s.at[1] != nowhere || s.following[6] != 0 || s.following[0] != 1 {
			t.Fatalf("seed %d: tasks are on %v, lifted are %v", seed, s.at, s.lifted)
		}
		if s.putLifted() {
			found++
			if s.at[0] == nowhere || s.at[1] == nowhere || s.following[0]+s.following[1] != 0 {
				t.Fatalf("seed %d: tasks are on %v", seed, s.at)
			}
		}
		recount(t, s.assignment)
	}
	if found < 45 { // now and then an instance is passed over by chance
		t.Errorf("tasks are put back in %d of 50 tries", found)
	}
}

func TestMakeRoomFails(t *testing.T) {
	p := fragmented()
	p.Instances[0].Capacity[0] = 7
	s := newAnnealing(p, 1)
	if s.makeRoom(6, 0) {
		t.Error("a task of 8 gets room on an instance of 7")
	}
	if s.returnLifted(); !slices.Equal(s.at, newAssignment(p).at) {
		t.Errorf("tasks are on %v", s.at)
	}
	recount(t, s.assignment)
	s = newAnnealing(fragmented(), 1)
	if s.makeRoom(6, 3) || len(s.lifted) > 0 {
		t.Error("room is made for a task where it is")
	}
	p = fragmented()
	p.Services[0].DependsOn = []int32{6}
	for i := range p.Instances {
		p.Instances[i].Neighborhood = int32(i)
	}
	p.Tasks[0].Start = 3
	p.Instances[3].Capacity[0] = 11
	s = newAnnealing(p, 1)
	if s.makeRoom(6, 1) || len(s.lifted) > 0 {
		t.Error("a task is lifted that another one depends on")
	}
}

// Lifted tasks go where they cost least. What they depend on is put somewhere before them.
func TestLiftedTasksGoWhereTheyCostLeast(t *testing.T) {
	p := fragmented()
	p.Weights, p.Distances = Weights{Distance: 1}, make([]int32, 16)
	for to := range 4 {
		p.Distances[3*4+to] = int32(10 - to)
	}
	p.Tasks[6].Needs[0] = 4
	p.Distances[15] = 0
	best := 0
	for seed := range uint64(50) {
		s := newAnnealing(p, seed)
		s.lift(6)
		p.Instances[3].Capacity[0] = 0
		s = newAnnealing(p, seed)
		s.lift(6)
		if to := s.cheapestInstance(6); to == 2 {
			best++
		}
	}
	if best < 45 {
		t.Errorf("the best instance is found in %d of 50 tries", best)
	}
	p = freeProblem(3, 2, 2)
	for i := range p.Instances {
		p.Instances[i].Neighborhood = int32(i)
	}
	p.Services[0].DependsOn, p.Tasks[1].Start = []int32{1}, 0
	s := newAnnealing(p, 1)
	if !s.lift(0) || !s.lift(1) || !s.putLifted() || s.at[0] != s.at[1] {
		t.Errorf("tasks are on %v, expected both in one neighborhood", s.at)
	}
}

// Some tasks of two to four instances are lifted: two to sixteen in all, mostly from instances
// whose load costs more.
func TestLiftSome(t *testing.T) {
	p := freeProblem(40, 800, 800)
	for i := range 20 { // the load of the first half costs something
		p.Instances[i].Safety[0] = 0
	}
	p.Resources[0].Overload = 1
	dear, all := 0, 0
	sizes := map[int]int{}
	for seed := range uint64(300) {
		s := newAnnealing(p, seed)
		s.liftSome()
		from := map[int32]int{}
		for _, m := range s.lifted {
			if from[m.from]++; m.from < 20 {
				dear++
			}
			all++
		}
		sizes[len(from)]++
		if len(s.lifted) < 4 || len(s.lifted) > 2*mostLifted || len(from) > 4 {
			t.Fatalf("seed %d: %d tasks of %d instances", seed, len(s.lifted), len(from))
		}
	}
	near(t, "part from instances whose load costs more", float64(dear)/float64(all), 0.75, 0.05)
	for _, n := range []int{2, 3, 4} {
		near(t, "part with so many instances", float64(sizes[n])/300, 1./3, 0.1)
	}
}

// A search finds the only order in which all tasks fit, where single moves do not lead.
func TestSearchRearranges(t *testing.T) {
	p := fragmented()
	p.Instances[3].Safety[0] = 0
	solved := 0
	for seed := range uint64(10) {
		result, err := Search(p, Budget{Steps: 20_000}, seed)
		if err != nil {
			t.Fatal(err)
		}
		if result.Before != 8 {
			t.Fatalf("the cost is %d before", result.Before)
		}
		if result.After == 0 { // the last instance is empty
			solved++
		}
	}
	if solved < 10 {
		t.Errorf("%d of 10 searches find the best assignment", solved)
	}
}

// In a large cluster a lifted task considers where lifted tasks were, where it started and some
// other instances.
func TestLargeClustersAreSampled(t *testing.T) {
	p := freeProblem(1000, 1000, 1000)
	for i := range p.Instances {
		p.Instances[i].Capacity[0] = 1000
	}
	for task := range p.Tasks {
		p.Tasks[task].Needs[0] = 600 // one on each instance
	}
	home, exchanged := 0, 0
	for seed := range uint64(100) {
		s := newAnnealing(p, seed)
		s.lift(0)
		if s.cheapestInstance(0) == 0 {
			home++
		}
		s.lift(1)
		s.put(0, 1)
		if s.cheapestInstance(1) == 0 {
			exchanged++
		}
	}
	if home < 95 || exchanged < 95 {
		t.Errorf("of 100 tasks, %d find their own place, and %d that of another lifted one", home, exchanged)
	}
	p.Tasks[0].Start, p.Tasks[0].Needs[0] = 0, 300
	p.Instances[999].Capacity[0] = 10_000
	found := 0
	for seed := range uint64(200) {
		s := newAnnealing(p, seed)
		s.moveTask(0, 999)
		s.lift(0)
		s.moved.weight = 0
		if to := s.cheapestInstance(0); to == 999 || to == 0 {
			found++
		}
	}
	if found < 190 {
		t.Errorf("a moved task finds where it was or started in %d of 200 tries", found)
	}
}
