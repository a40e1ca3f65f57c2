// Package workload makes what the placement benchmarks place: instances, services and an endless
// stream of tasks. It is plain data, the same for the same seed, so that Berth's engine and its
// peers run the same. The package knows no scheduler and no other package of the project.
//
// The workloads, on instances of 4 vCPU and 32 GiB in 3 zones and 50 racks, half of them with
// disk=ssd:
//
//   - mixed: 5 CPU sizes × 5 memory sizes, a third of the tasks need an ssd; no other rule.
//   - zone-spread: services of 3 to 300 replicas, of one size, spread over the zones.
//   - anti-affinity: the same services, each with at most one task on an instance
//     (distinctInstance).
//   - domains: the same services, the adaptive domain policy; fault domains of 3 data centres with
//     17 racks each, 20 upgrade domains. There are more instances than data centres times upgrade
//     domains, so its rule is the maximum difference (P5).
//   - everything: three sizes; a quarter of the services have a static host port, a sixteenth need
//     one or two GPUs (a quarter of the instances have 4), all load two metrics (half of the
//     instances have capacities for them, the others are unlimited), half of them have a memberOf
//     of one or two terms; spread over the zones, then packed by memory.
//
// A run has two parts. From empty, the tasks 0 to Live-1 of the stream fill 85 % of the CPU, or 80
// % if some instances are in more demand than others (mixed, everything). From then on, task i-Live
// leaves before task i comes. The stream repeats itself after 1 % more than Live tasks, so a task
// that comes is never the one that has just left, and a service never has more tasks than Replicas.
// A run without time to fill the cluster starts from Seats.
package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The workloads' names.
const (
	Mixed        = "mixed"
	ZoneSpread   = "zone-spread"
	AntiAffinity = "anti-affinity"
	Domains      = "domains"
	Everything   = "everything"
)

// Names are all workloads, Sizes the numbers of instances that they run with.
var (
	Names = []string{Mixed, ZoneSpread, AntiAffinity, Domains, Everything}
	Sizes = []int{1000, 5000, 15000}
)

// Fewest is the smallest number of instances. With a multiple of it, the shares above are exact.
const Fewest = 100

// Instance is one container instance.
type Instance struct {
	ID            string
	CPU           int64 // ECS CPU units, 1024 to the vCPU
	Memory        int64 // MiB
	GPUs          int64
	Zone          string
	Rack          string // within its zone
	FaultDomain   string // "fd:/dc0/r16"
	UpgradeDomain string
	Disk          string   // ssd or hdd
	Generation    string   // m5, m6 or m7
	Capacities    []Metric // unlimited without one
}

// Metric is a load or a capacity.
type Metric struct {
	Name   string
	Amount int64
}

// Service is what a service's tasks need, and the rules for them.
type Service struct {
	Name     string
	Replicas int // the desired count
	CPU      int64
	Memory   int64
	GPUs     int64
	HostPort int // static, TCP; 0 for none
	Loads    []Metric
	Where    []Match // all must hold
	Distinct bool    // at most one task on an instance
	Adaptive bool    // the domain policy, with at most one task on an instance
	Spread   bool    // over the zones, as far as possible
	Binpack  bool    // by memory, after the spread
}

// Match requires an attribute, disk or generation, to be one of the values.
type Match struct {
	Attribute string
	Values    []string
}

// Attribute returns the instance's value of an attribute that a Match can name.
func (n *Instance) Attribute(name string) string {
	switch name {
	case "disk":
		return n.Disk
	case "generation":
		return n.Generation
	}
	return ""
}

// Expression returns Where in the ECS cluster query language, or nothing if there is nothing to
// match.
func (s *Service) Expression() string {
	var terms []string
	for _, m := range s.Where {
		if len(m.Values) == 1 {
			terms = append(terms, fmt.Sprintf("attribute:%s == %s", m.Attribute, m.Values[0]))
			continue
		}
		terms = append(terms, fmt.Sprintf("attribute:%s in [%s]", m.Attribute, strings.Join(m.Values, ", ")))
	}
	return strings.Join(terms, " and ")
}

// Workload is one workload for one number of instances.
type Workload struct {
	Name      string
	Instances []Instance
	Services  []Service
	Live      int // the number of tasks in the steady state
	order     []int32
}

// Make makes a workload. An unknown name and too few instances are errors.
func Make(name string, instances int, seed uint64) (*Workload, error) {
	if instances < Fewest {
		return nil, fmt.Errorf("making workload %s: %d instances, at least %d are needed", name, instances, Fewest)
	}
	r := rand.New(rand.NewPCG(seed, uint64(instances)))
	w := &Workload{Name: name}
	switch name {
	case Mixed:
		w.Services = mixedServices(instances)
	case ZoneSpread, AntiAffinity, Domains:
		w.Services = replicatedServices(instances, r)
	case Everything:
		w.Services = allRulesServices(instances, r)
	default:
		return nil, fmt.Errorf("making workload %s: there are %s", name, strings.Join(Names, ", "))
	}
	for i := range w.Services {
		s := &w.Services[i]
		s.Name = fmt.Sprintf("%s-%d", name, i)
		s.Spread = name == ZoneSpread || name == Everything
		s.Distinct = name == AntiAffinity
		s.Adaptive = name == Domains
		for range s.Replicas {
			w.order = append(w.order, int32(i))
		}
	}
	r.Shuffle(len(w.order), func(a, b int) { w.order[a], w.order[b] = w.order[b], w.order[a] })
	w.Live = len(w.order) * 100 / 101
	for i := range instances {
		w.Instances = append(w.Instances, newInstance(i, name == Everything))
	}
	return w, nil
}

// Service returns the position in Services of the stream's task i. The stream starts at 0 and has
// no end.
func (w *Workload) Service(i int) int { return int(w.order[i%len(w.order)]) }

const (
	instanceCPU    = 4096
	instanceMemory = 32 << 10
)

// newInstance returns the i-th instance. Its traits follow from its number and are independent of
// each other: any 51 in a row are in different fault domains, any 20 in different upgrade domains.
func newInstance(i int, rich bool) Instance {
	zone := i % 3
	racks := []int{17, 17, 16}[zone]
	n := Instance{
		ID: fmt.Sprintf("%032x", i+1), CPU: instanceCPU, Memory: instanceMemory,
		Zone:        "us-east-1" + string("abc"[zone]),
		Rack:        fmt.Sprintf("%c%d", "abc"[zone], i/3%racks),
		FaultDomain: fmt.Sprintf("fd:/dc%d/r%d", zone, i/3%17), UpgradeDomain: fmt.Sprintf("ud%d", i%20),
		Disk: [...]string{"ssd", "hdd"}[i/50%2], Generation: [...]string{"m5", "m6", "m7"}[i/7%3],
	}
	if !rich {
		return n
	}
	if i/2%4 == 0 {
		n.GPUs = 4
	}
	if i/5%2 == 0 {
		n.Capacities = []Metric{{"connections", 120}, {"iops", 1200}}
	}
	return n
}
