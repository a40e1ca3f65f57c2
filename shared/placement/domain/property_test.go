package domain_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// A plain is one dimension of the specification. It has no counters: every question is answered by
// recursion over the paths.
type plain struct {
	paths    [][]string // per instance, all equally long; nil in no domain
	standing []domain.Standing
	tasks    []int
}

func newPlain(names []string, standing []domain.Standing, tasks []int) *plain {
	p := &plain{paths: make([][]string, len(names)), standing: standing, tasks: tasks}
	depth := 0
	for i, name := range names {
		if name != "" && standing[i] != domain.NotInCluster {
			p.paths[i] = strings.Split(strings.TrimPrefix(name, "fd:/"), "/")
			depth = max(depth, len(p.paths[i]))
		}
	}
	for i := range p.paths {
		for p.paths[i] != nil && len(p.paths[i]) < depth {
			p.paths[i] = append(p.paths[i], "")
		}
	}
	return p
}

func (p *plain) sum(prefix []string, of func(i int) int) int {
	n := 0
	for i, path := range p.paths {
		if path != nil && slices.Equal(path[:len(prefix)], prefix) {
			n += of(i)
		}
	}
	return n
}

func (p *plain) count(prefix []string) int {
	return p.sum(prefix, func(i int) int { return p.tasks[i] })
}

func (p *plain) hosts(prefix []string) int {
	return p.sum(prefix, func(i int) int {
		if p.standing[i] == domain.Eligible {
			return 1
		}
		return 0
	})
}

func (p *plain) children(prefix []string) [][]string {
	var out [][]string
	for _, path := range p.paths {
		if len(path) > len(prefix) && slices.Equal(path[:len(prefix)], prefix) {
			child := path[:len(prefix)+1]
			if !slices.ContainsFunc(out, func(o []string) bool { return slices.Equal(o, child) }) {
				out = append(out, child)
			}
		}
	}
	return out
}

func (p *plain) live(prefix []string) [][]string {
	return slices.DeleteFunc(p.children(prefix), func(c []string) bool { return p.hosts(c) == 0 })
}

// base returns the floor and the ceiling of what each live child should have.
func (p *plain) base(live [][]string) (floor, ceil int) {
	n := 0
	for _, c := range live {
		n += p.count(c)
	}
	return n / len(live), (n + len(live) - 1) / len(live)
}

// unbalanced is the maximum difference rule: below any domain with more than one task, no live
// child has less than the base or more than one above it.
func (p *plain) unbalanced(prefix []string) bool {
	live := p.live(prefix)
	if len(live) == 0 || p.count(prefix) <= 1 {
		return false
	}
	base, _ := p.base(live)
	for _, c := range live {
		if n := p.count(c); n < base || n > base+1 || p.unbalanced(c) {
			return true
		}
	}
	return false
}

// admitsDifference walks down to the instance's domain. On each level the child must be below the
// ceiling, unless all are equal, and below the floor if some are. dead also admits a domain without
// an eligible instance, by its siblings.
func (p *plain) admitsDifference(path []string, dead bool) bool {
	for level := range path {
		live := p.live(path[:level])
		child := path[:level+1]
		if p.hosts(child) == 0 && !dead {
			return false
		}
		if len(live) == 0 {
			return true
		}
		floor, ceil := p.base(live)
		n := p.count(child)
		starved := slices.ContainsFunc(live, func(c []string) bool { return p.count(c) < floor })
		switch {
		case n == 0:
			return true
		case n > ceil, starved && n >= floor, n == ceil && ceil != floor:
			return false
		}
	}
	return true
}

// branch returns the first domain with several live children.
func (p *plain) branch() ([]string, bool) {
	prefix := []string{}
	for {
		switch live := p.live(prefix); len(live) {
		case 0:
			return nil, false
		case 1:
			prefix = live[0]
		default:
			return prefix, true
		}
	}
}

func (p *plain) branches() int {
	if at, ok := p.branch(); ok {
		return len(p.live(at))
	}
	return 0
}

func (p *plain) limit(target int) int {
	limit := max(target-(target/2+1), 1)
	if p.branches()*limit < target {
		limit++
	}
	return limit
}

func (p *plain) tops() int { return len(p.children(nil)) }

func (p *plain) instances() int {
	return len(slices.DeleteFunc(slices.Clone(p.paths), func(path []string) bool { return path == nil }))
}

// crowded reports whether a domain of this flat dimension has two instances that take tasks.
func (p *plain) crowded() bool {
	return slices.ContainsFunc(p.children(nil), func(c []string) bool {
		return p.sum(c, func(i int) int {
			if p.standing[i] >= domain.Ineligible {
				return 1
			}
			return 0
		}) > 1
	})
}

// A specification is both dimensions under a rule.
type specification struct {
	fault, upgrade             *plain
	rule                       domain.Rule
	noFault, noUpgrade         bool
	quorumFault, quorumUpgrade bool
}

func newSpecification(l *layout, r domain.Rule, tasks []int) *specification {
	s := &specification{rule: r, fault: newPlain(l.fault, l.standing, tasks),
		upgrade: newPlain(l.upgrade, l.standing, tasks)}
	built := s.fault.tops() < s.fault.instances()
	faults, upgrades := 0, s.upgrade.branches()
	if built {
		faults = s.fault.branches()
	}
	auto := !r.NoSwitch && r.Target > 0 && faults > 0 && upgrades > 0 && r.Target%faults == 0 &&
		r.Target%upgrades == 0 &&
		s.fault.hosts(nil) <= faults*upgrades && s.upgrade.hosts(nil) <= faults*upgrades
	s.noFault = !built || r.NoFault || r.Policy == cluster.PolicyIgnore || !r.Governs()
	s.noUpgrade = !s.upgrade.crowded() || r.NoUpgrade || !r.Governs()
	s.quorumFault = r.Policy == cluster.PolicyQuorum || r.Policy == cluster.PolicyAdaptive && (auto || r.QuorumFault)
	s.quorumUpgrade = r.Policy == cluster.PolicyQuorum || r.Policy != cluster.PolicyDifference &&
		(auto || r.QuorumUpgrade)
	return s
}

func (s *specification) violated() (fault, upgrade bool) {
	nonpacking := s.rule.Policy == cluster.PolicyNonpacking
	return !s.noFault && s.fault.violated(nonpacking, s.quorumFault, s.rule.Target),
		!s.noUpgrade && s.upgrade.violated(false, s.quorumUpgrade, s.rule.Target)
}

func (p *plain) violated(nonpacking, quorum bool, target int) bool {
	switch at, ok := p.branch(); {
	case nonpacking:
		return slices.ContainsFunc(p.live(nil), func(c []string) bool { return p.count(c) > 1 })
	case !quorum:
		return p.unbalanced(nil)
	default:
		return ok && slices.ContainsFunc(p.children(at), func(c []string) bool { return p.count(c) > p.limit(target) })
	}
}

func (s *specification) admits(i int) bool {
	nonpacking := s.rule.Policy == cluster.PolicyNonpacking
	dead := s.rule.NoConstraints
	return (s.fault.standing[i] == domain.Eligible || dead && s.fault.standing[i] == domain.Ineligible) &&
		(s.noFault || s.fault.admits(i, dead, nonpacking, s.quorumFault, s.rule.Target)) &&
		(s.noUpgrade || s.upgrade.admits(i, dead, false, s.quorumUpgrade, s.rule.Target))
}

func (p *plain) admits(i int, dead, nonpacking, quorum bool, target int) bool {
	path := p.paths[i]
	at, ok := p.branch()
	switch {
	case path == nil:
		return true
	case nonpacking:
		return p.count(path[:1]) == 0
	case !quorum:
		return p.admitsDifference(path, dead)
	}
	return !ok || !slices.Equal(path[:len(at)], at) || p.count(path[:len(at)+1]) < p.limit(target)
}

func genLayout(t *rapid.T) *layout {
	l := &layout{}
	segment := rapid.SampledFrom([]string{"a", "b", "c"})
	flat := rapid.IntRange(0, 3).Draw(t, "upgrade domains")
	for i := range rapid.IntRange(0, 12).Draw(t, "instances") {
		fault := ""
		if rapid.IntRange(0, 9).Draw(t, "has fault domain") > 0 {
			fault = "fd:/" + strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "path"), "/")
		}
		upgrade := "own" + string(rune('a'+i))
		if flat > 0 {
			upgrade = string(rune('u' + rapid.IntRange(0, flat).Draw(t, "upgrade")))
		}
		l.add(string(rune('A'+i)), fault, upgrade)
		l.standing[i] = rapid.SampledFrom([]domain.Standing{
			domain.Eligible, domain.Eligible, domain.Eligible, domain.Ineligible, domain.Unavailable,
			domain.NotInCluster,
		}).Draw(t, "standing")
	}
	return l
}

func genRule(t *rapid.T) domain.Rule {
	return domain.Rule{
		Policy: rapid.SampledFrom(append([]cluster.DomainPolicy{""}, cluster.DomainPolicies...)).Draw(t,
			"policy"),
		Target:        rapid.IntRange(0, 12).Draw(t, "target"),
		QuorumFault:   rapid.Bool().Draw(t, "quorum fault"),
		QuorumUpgrade: rapid.Bool().Draw(t, "quorum upgrade"),
		NoSwitch:      rapid.Bool().Draw(t, "no switch"),
		NoConstraints: rapid.IntRange(0, 3).Draw(t, "no constraints") == 0,
		NoFault:       rapid.IntRange(0, 9).Draw(t, "no fault") == 0,
		NoUpgrade:     rapid.IntRange(0, 9).Draw(t, "no upgrade") == 0,
	}
}

// often is how many layouts a check draws: most rules matter in few of them.
const often = 12

func TestDomainsEqualTheSpecification(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			checkDrawnDomains(t)
		}
	})
}

func checkDrawnDomains(t *rapid.T) {
	l, r := genLayout(t), genRule(t)
	tasks := make([]int, len(l.names))
	d := l.domains(genRule(t))
	for range rapid.IntRange(0, 20).Draw(t, "steps") {
		if len(tasks) == 0 {
			break
		}
		i := rapid.IntRange(0, len(tasks)-1).Draw(t, "instance")
		n := max(rapid.IntRange(-2, 3).Draw(t, "more"), -tasks[i])
		tasks[i] += n
		d.AddTasks(i, n)
	}
	d.SetRule(r)
	checkDomains(t, l, r, d, tasks)
	checkCopy(t, r, d, tasks)
	if len(tasks) > 0 { // and once more after the bookkeeping was set up with tasks
		i := rapid.IntRange(0, len(tasks)-1).Draw(t, "last")
		tasks[i]++
		d.AddTasks(i, 1)
		checkDomains(t, l, r, d, tasks)
		checkCopy(t, r, d, tasks)
	}
}

// checkCopy compares the domains with a copy under another rule that got the same tasks.
func checkCopy(t *rapid.T, r domain.Rule, d *domain.Domains, tasks []int) {
	want := domainAnswers(d, tasks)
	again := d.WithoutTasks(genRule(t))
	if fault, upgrade := again.Excess(); fault+upgrade > 0 {
		t.Fatalf("a copy without tasks has an excess of %d, %d", fault, upgrade)
	}
	for i, n := range tasks {
		again.AddTasks(i, n)
	}
	again.SetRule(r)
	if got := domainAnswers(again, tasks); !slices.Equal(got, want) {
		t.Fatalf("a copy answers %v, the domains %v", got, want)
	}
	if now := domainAnswers(d, tasks); !slices.Equal(now, want) {
		t.Fatalf("since there is a copy the answers are %v, before %v", now, want)
	}
}

// domainAnswers returns what the domains say with so many tasks on each instance.
func domainAnswers(d *domain.Domains, tasks []int) (out []any) {
	fault, upgrade := d.Excess()
	quorumFault, quorumUpgrade := d.UsesQuorum()
	out = append(out, fault, upgrade, quorumFault, quorumUpgrade, d.FaultDomainCount(), d.UpgradeDomainCount(),
		d.NodeCount())
	for i := range tasks {
		unit, over := d.FaultUnit(i)
		row, above := d.UpgradeUnit(i)
		leaf, label := d.LowestDomains(i)
		out = append(out, unit, over, row, above, leaf, label, d.FaultDomain(i), d.UpgradeDomain(i))
		if tasks[i] == 0 {
			continue
		}
		out = append(out, d.StopRank(i))
		for j := range tasks {
			out = append(out, d.MayMove(i, j))
		}
	}
	return out
}

func checkDomains(t *rapid.T, l *layout, r domain.Rule, d *domain.Domains, tasks []int) {
	s := newSpecification(l, r, tasks)
	fault, upgrade := d.Violated()
	wantFault, wantUpgrade := s.violated()
	checkExcess(t, l, s, d)
	if fault != wantFault || upgrade != wantUpgrade {
		t.Fatalf("violated: got %v %v, want %v %v with %v", fault, upgrade, wantFault, wantUpgrade, tasks)
	}
	for i := range tasks {
		if got, want := d.Admits(i), s.admits(i); got != want {
			t.Fatalf("%s admits: got %v, want %v with %v", l.names[i], got, want, tasks)
		}
	}
}

// checkExcess compares the excess with its definition, and what follows from it: which task the
// rules can best spare, and which moves make nothing worse.
func checkExcess(t *rapid.T, l *layout, s *specification, d *domain.Domains) {
	fault, upgrade := d.Excess()
	wantFault, wantUpgrade := s.excess()
	if fault != wantFault || upgrade != wantUpgrade {
		t.Fatalf("excess is %d, %d, want %d, %d with %v", fault, upgrade, wantFault, wantUpgrade, s.fault.tasks)
	}
	for i := range l.names {
		unit, over := d.FaultUnit(i)
		wantUnit, wantOver := s.overLimit(i, s.fault, !s.noFault)
		if (unit >= 0) != wantUnit || over != wantOver {
			t.Fatalf("%s: fault unit %d, over is %v, want %v, %v", l.names[i], unit, over, wantUnit, wantOver)
		}
		if s.fault.tasks[i] == 0 {
			continue
		}
		s.fault.tasks[i]-- // the dimensions share the tasks
		fault, upgrade := s.excess()
		s.fault.tasks[i]++
		want := 2 * (fault + upgrade)
		if !(!s.noFault && s.fault.isDead(i) || !s.noUpgrade && s.upgrade.isDead(i)) {
			want++
		}
		if got := d.StopRank(i); got != want {
			t.Fatalf("%s: the rank to stop is %d, want %d", l.names[i], got, want)
		}
	}
}

// excess is how many tasks are too many or too few in each dimension.
func (s *specification) excess() (fault, upgrade int) {
	if !s.noFault {
		fault = s.fault.excess(s.rule.Policy == cluster.PolicyNonpacking, s.quorumFault, s.rule.Target)
	}
	if !s.noUpgrade {
		upgrade = s.upgrade.excess(false, s.quorumUpgrade, s.rule.Target)
	}
	return fault, upgrade
}

func (p *plain) excess(nonpacking, quorum bool, target int) (n int) {
	at, ok := p.branch()
	units, limit := p.live(nil), 1
	switch {
	case nonpacking:
	case !quorum:
		return p.imbalance(nil)
	case !ok:
		return 0
	default:
		units, limit = p.children(at), p.limit(target)
	}
	for _, c := range units {
		n += max(0, p.count(c)-limit)
	}
	return n
}

// imbalance is how many tasks at least have to enter or leave some child, summed over all domains.
func (p *plain) imbalance(prefix []string) int {
	live := p.live(prefix)
	if len(live) == 0 {
		return 0
	}
	floor, _ := p.base(live)
	over, under, below := 0, 0, 0
	for _, c := range live {
		over += max(0, p.count(c)-floor-1)
		under += max(0, floor-p.count(c))
		below += p.imbalance(c)
	}
	return max(over, under) + below
}

// isDead reports whether no instance in this one's lowest domain is eligible.
func (p *plain) isDead(i int) bool { return p.paths[i] != nil && p.hosts(p.paths[i]) == 0 }

// overLimit reports whether a limit concerns the instance's fault domain, and whether that has more
// tasks.
func (s *specification) overLimit(i int, p *plain, ruled bool) (concerned, over bool) {
	path := p.paths[i]
	at, ok := p.branch()
	if !ruled || path == nil {
		return false, false
	}
	if s.rule.Policy == cluster.PolicyNonpacking {
		return p.hosts(path[:1]) > 0, p.hosts(path[:1]) > 0 && p.count(path[:1]) > 1
	}
	if !s.quorumFault || !ok || len(path) <= len(at) || !slices.Equal(path[:len(at)], at) {
		return false, false
	}
	return true, p.count(path[:len(at)+1]) > p.limit(s.rule.Target)
}

// An admitted task breaks no rule that held, in any order of arrival. Removing it restores every
// answer.
func TestAdmittedTasksBreakNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, r := genLayout(t), genRule(t)
		d := l.domains(r)
		for range 15 {
			var open []int
			for i := range l.names {
				if d.Admits(i) {
					open = append(open, i)
				}
			}
			if len(open) == 0 {
				return
			}
			i := rapid.SampledFrom(open).Draw(t, "next")
			d.AddTasks(i, 1)
			if fault, upgrade := d.Violated(); fault || upgrade {
				t.Fatalf("%s broke a rule: fault %v, upgrade %v", l.names[i], fault, upgrade)
			}
			if d.AddTasks(i, -1); !d.Admits(i) {
				t.Fatalf("%s is not admitted again", l.names[i])
			}
			d.AddTasks(i, 1)
		}
	})
}

func TestMovesMakeNothingWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, r := genLayout(t), genRule(t)
		if len(l.names) < 2 {
			return
		}
		d := l.domains(r)
		tasks := make([]int, len(l.names))
		for range rapid.IntRange(1, 10).Draw(t, "tasks") {
			i := rapid.IntRange(0, len(tasks)-1).Draw(t, "on")
			tasks[i]++
			d.AddTasks(i, 1)
		}
		from := rapid.IntRange(0, len(tasks)-1).Filter(func(i int) bool { return tasks[i] > 0 }).Draw(t, "from")
		to := rapid.IntRange(0, len(tasks)-1).Draw(t, "to")
		may := d.MayMove(from, to)
		fault, upgrade := d.Excess()
		d.AddTasks(from, -1)
		d.AddTasks(to, 1)
		faultThen, upgradeThen := d.Excess()
		if may && (faultThen > fault || upgradeThen > upgrade) {
			t.Fatalf("excess grew from %d %d to %d %d", fault, upgrade, faultThen, upgradeThen)
		}
		tasks[from]--
		tasks[to]++
		checkDomains(t, l, r, d, tasks)
	})
}
