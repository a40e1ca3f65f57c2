package reassign

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"berth/shared/placement/rebalance"
)

// The most of everything that a file may have. The largest instances of the challenge have 5,000
// machines and 50,000 processes.
const (
	maxResources = 100
	maxMachines  = 20_000
	maxServices  = 200_000
	maxProcesses = 200_000
	maxNumber    = math.MaxInt32
)

// numbers reads whole numbers that are separated by blanks. After the first error it returns 0.
type numbers struct {
	words *bufio.Scanner
	count int
	err   error
}

func newNumbers(r io.Reader) *numbers {
	words := bufio.NewScanner(r)
	words.Buffer(make([]byte, 0, 64*1024), 1024)
	words.Split(bufio.ScanWords)
	return &numbers{words: words}
}

// next returns the next number, which is from 0 to most. what names it in the error.
func (n *numbers) next(what string, most int64) int64 {
	if n.err != nil {
		return 0
	}
	n.count++
	if !n.words.Scan() {
		if n.err = n.words.Err(); n.err == nil {
			n.err = fmt.Errorf("the file ends before number %d, expected %s", n.count, what)
		}
		return 0
	}
	value, err := strconv.ParseInt(n.words.Text(), 10, 64)
	if err != nil || value < 0 || value > most {
		n.err = fmt.Errorf("number %d is %q, expected %s, a whole number from 0 to %d", n.count, n.words.Text(), what,
			most)
		return 0
	}
	return value
}

// list returns the next numbers.
func (n *numbers) list(count int, what string) []int64 {
	var out []int64
	for range count {
		if out = append(out, n.next(what, maxNumber)); n.err != nil {
			return nil
		}
	}
	return out
}

// end returns the first error. More numbers than expected are one, too.
func (n *numbers) end() error {
	if n.err == nil && n.words.Scan() {
		n.err = fmt.Errorf("number %d is %q, expected the end of the file", n.count+1, n.words.Text())
	}
	if n.err == nil {
		n.err = n.words.Err()
	}
	return n.err
}

// ReadModel reads a model file of the challenge. Where the tasks start is in another file: see
// [ReadAssignment].
func ReadModel(r io.Reader) (*rebalance.Problem, error) {
	n, p := newNumbers(r), &rebalance.Problem{}
	resources := int(n.next("the number of resources", maxResources))
	for range resources {
		p.Resources = append(p.Resources, rebalance.Resource{
			Transit: n.next("1 for a transient resource, else 0", 1) == 1, Overload: n.next("a load cost", maxNumber),
		})
	}
	machines := int(n.next("the number of machines", maxMachines))
	for range machines {
		hood, zone := n.next("a neighborhood", maxMachines), n.next("a location", maxMachines)
		p.Instances = append(p.Instances, rebalance.Instance{Zone: int32(zone), Neighborhood: int32(hood),
			Capacity: n.list(resources, "a capacity"), Safety: n.list(resources, "a safety capacity")})
		for _, d := range n.list(machines, "a cost of moving between machines") {
			p.Distances = append(p.Distances, int32(d))
		}
		if n.err != nil {
			return nil, n.err
		}
	}
	readServices(n, p)
	readProcesses(n, p, resources)
	readCosts(n, p, resources)
	if err := n.end(); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// readServices reads the services and what they depend on.
func readServices(n *numbers, p *rebalance.Problem) {
	services := n.next("the number of services", maxServices)
	for range services {
		s := rebalance.Service{Exclusive: true, LeastZones: int32(n.next("a least number of locations", maxMachines))}
		for range n.next("a number of dependencies", maxServices) {
			s.DependsOn = append(s.DependsOn, int32(n.next("a service", services-1)))
			if n.err != nil {
				return
			}
		}
		p.Services = append(p.Services, s)
	}
}

// readProcesses reads the processes: the tasks.
func readProcesses(n *numbers, p *rebalance.Problem, resources int) {
	for range n.next("the number of processes", maxProcesses) {
		service := n.next("a service", int64(len(p.Services))-1)
		p.Tasks = append(p.Tasks, rebalance.Task{Service: int32(service), Needs: n.list(resources, "a requirement"),
			Cost: n.next("a cost of moving", maxNumber)})
		if n.err != nil {
			return
		}
	}
}

// readCosts reads the balance costs and the weights of moves.
func readCosts(n *numbers, p *rebalance.Problem, resources int) {
	for range n.next("the number of balance costs", maxResources*maxResources) {
		most := int64(resources) - 1
		p.Balances = append(p.Balances, rebalance.Balance{First: int32(n.next("a resource", most)),
			Second: int32(n.next("a resource", most)), Ratio: n.next("a target", maxNumber),
			Weight: n.next("a weight", maxNumber)})
	}
	p.Weights = rebalance.Weights{Task: n.next("the weight of process moves", maxNumber),
		Service:  n.next("the weight of service moves", maxNumber),
		Distance: n.next("the weight of machine moves", maxNumber)}
}

// ReadAssignment reads where the tasks start, one machine per process, into the problem.
func ReadAssignment(r io.Reader, p *rebalance.Problem) error {
	n := newNumbers(r)
	for t := range p.Tasks {
		p.Tasks[t].Start = int32(n.next("a machine", int64(len(p.Instances))-1))
	}
	return n.end()
}
