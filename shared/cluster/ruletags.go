package cluster

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/choice"
)

// Tags of a service or of RunTask that set a part of its [Rules] for which the ECS API has no
// parameter.
const (
	TagDomainPolicy = "berth:domain-policy"
	TagConstraint   = "berth:constraint"
	TagMetrics      = "berth:metrics" // NAME=LOAD[:WEIGHT], more of them after commas
	TagMoveCost     = "berth:move-cost"
	TagStrategy     = "berth:strategy"
	TagRebalancing  = "berth:rebalancing" // on or off
	TagScaling      = "berth:scaling"     // see [ReadLoadScaling]
	TagTolerations  = "berth:tolerations" // KEY[=VALUE][:EFFECT], more of them after commas
	TagAffinity     = "berth:affinity"    // the name of a service
	TagApplication  = "berth:application" // the name of an application
)

// Bounds of [Rules]; those of strategies and constraints are ECS's own.
const (
	MaxStrategies  = 5
	MaxConstraints = 10
	MaxMetrics     = 20
	maxMetricName  = 128
	maxLoad        = 1<<31 - 1
)

// RuleTags are the names of the tags that [ApplyRuleTag] knows.
var RuleTags = []string{TagDomainPolicy, TagConstraint, TagMetrics, TagMoveCost, TagStrategy, TagRebalancing,
	TagScaling, TagTolerations, TagAffinity, TagApplication}

// ApplyRuleTag sets the part of the rules that the tag names. An empty value resets it. A value
// that cannot be read is an InvalidParameterException, which says what was expected. Expressions
// are not parsed here.
func ApplyRuleTag(r *Rules, key, text string) (err error) {
	text = strings.TrimSpace(text)
	switch key {
	case TagDomainPolicy:
		r.DomainPolicy, err = oneOf("The domain policy", text, DomainPolicies)
	case TagConstraint:
		r.NodeConstraint = text
	case TagMetrics:
		r.Metrics, err = ReadMetrics(text)
	case TagMoveCost:
		r.MoveCost, err = readMoveCost(text)
	case TagStrategy:
		r.Scoring = text
	case TagScaling:
		r.Scaling, err = ReadLoadScaling(text)
	case TagRebalancing:
		r.Rebalancing, err = oneOf("Rebalancing", text, Switches)
	case TagAffinity:
		r.Affinity = text
	case TagApplication:
		r.Application, err = text, checkApplicationName(text)
	case TagTolerations:
		r.Tolerations, err = ReadTolerations(text)
	default:
		err = Errorf(CodeInvalidParameter, "Tag %.128s is not known here, %s", key, choice.Expected(key, RuleTags))
	}
	return err
}

// checkApplicationName refuses a name that is too long.
func checkApplicationName(name string) error {
	if len(name) > maxMetricName {
		return Errorf(CodeInvalidParameter, "The name of an application has %d characters, at most %d are allowed.",
			len(name), maxMetricName)
	}
	return nil
}

// readMoveCost returns the move cost that text names, or is as a whole number.
func readMoveCost(text string) (MoveCost, error) {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= MostMoveCost {
		return MoveCost(strconv.Itoa(n)), nil
	}
	c, err := oneOf("The move cost", text, MoveCosts)
	if err != nil {
		return "", Errorf(CodeInvalidParameter,
			"The move cost is %.40q, expected a whole number from 0 to %d, or else %s%s", text, MostMoveCost,
			choice.List(MoveCosts), choice.End(text, MoveCosts))
	}
	return c, nil
}

// oneOf returns the value that text names in any case, or the empty value for an empty text.
func oneOf[T ~string](name, text string, values []T) (T, error) {
	if text == "" {
		return "", nil
	}
	for _, v := range values {
		if strings.EqualFold(string(v), text) {
			return v, nil
		}
	}
	return "", Errorf(CodeInvalidParameter, "%s is %.40q, %s", name, text, choice.Expected(text, values))
}

// ReadMetrics parses a list of NAME=LOAD or NAME=LOAD:WEIGHT: "memory-mb=512:High,
// connections=100".
func ReadMetrics(text string) ([]Metric, error) {
	var out []Metric
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, rest, _ := strings.Cut(part, "=")
		load, weight, _ := strings.Cut(rest, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(load), 10, 64)
		if err != nil {
			return nil, Errorf(CodeInvalidParameter,
				"Metric %.200q cannot be read, expected NAME=LOAD or NAME=LOAD:WEIGHT such as connections=100:High.",
				part)
		}
		w, err := oneOf("The weight of metric "+name, strings.TrimSpace(weight), Weights)
		if err != nil {
			return nil, err
		}
		out = append(out, Metric{Name: strings.TrimSpace(name), Load: n, Weight: w})
	}
	return out, CheckMetrics(out)
}

// MetricsText returns the text that [ReadMetrics] parses.
func MetricsText(metrics []Metric) string {
	parts := make([]string, len(metrics))
	for i, m := range metrics {
		parts[i] = m.Name + "=" + strconv.FormatInt(m.Load, 10)
		if m.Weight != "" {
			parts[i] += ":" + string(m.Weight)
		}
	}
	return strings.Join(parts, ",")
}

// CheckMetrics returns an InvalidParameterException for metrics without a name, named twice, with
// loads or weights out of range, or named like a resource that ECS itself counts (P11).
func CheckMetrics(metrics []Metric) error {
	if len(metrics) > MaxMetrics {
		return Errorf(CodeInvalidParameter, "There are %d metrics, at most %d are allowed.", len(metrics), MaxMetrics)
	}
	for i, m := range metrics {
		switch {
		case checkMetric(m.Name) != nil:
			return checkMetric(m.Name)
		case slices.ContainsFunc(metrics[:i], func(o Metric) bool { return o.Name == m.Name }):
			return Errorf(CodeInvalidParameter, "Metric %s is named twice.", m.Name)
		case m.Load < 0 || m.Load > maxLoad:
			return Errorf(CodeInvalidParameter, "The load of metric %s is %d, but must be between 0 and %d.", m.Name,
				m.Load, maxLoad)
		case m.Weight != "" && !slices.Contains(Weights, m.Weight):
			return Errorf(CodeInvalidParameter, "The weight of metric %s is %.40q, %s", m.Name, m.Weight,
				choice.Expected(string(m.Weight), Weights))
		}
	}
	return nil
}

// checkMetric returns an error if the text cannot be the name of a metric.
func checkMetric(name string) error {
	switch {
	case name == "" || len(name) > maxMetricName || strings.ContainsAny(name, "=,"):
		return Errorf(CodeInvalidParameter, "Metric name %.130q must have 1 to %d characters, no = and no comma.", name,
			maxMetricName)
	case !IsMetric(name):
		return Errorf(CodeInvalidParameter,
			"%s is no metric: ECS itself counts how much of it tasks need and instances have.", name)
	}
	return nil
}

// ownResources are the resources of a container instance that ECS itself counts.
var ownResources = []string{"CPU", "MEMORY", "PORTS", "PORTS_UDP", "GPU", "ENI"}

// IsMetric reports whether a registered resource of this name is the capacity of a metric, and not
// a resource that ECS counts.
func IsMetric(name string) bool { return !slices.Contains(ownResources, name) }

// CheckConfiguration returns an InvalidParameterException for a configuration that contradicts
// itself: a metric with both a buffer and overbooking (P13), fractions or thresholds out of range,
// capacities below zero.
func CheckConfiguration(c *Configuration) error {
	for _, name := range slices.Concat(
		slices.Sorted(maps.Keys(c.Buffer)), slices.Sorted(maps.Keys(c.Overbooking)),
		slices.Sorted(maps.Keys(c.Balancing)), slices.Sorted(maps.Keys(c.Activity)),
	) {
		if err := checkMetric(name); err != nil {
			return err
		}
	}
	for name, p := range c.Buffer {
		if _, both := c.Overbooking[name]; both {
			return Errorf(CodeInvalidParameter,
				"Metric %.130s has a buffer and overbooking, but only one of them is possible.", name)
		}
		if !(p >= 0 && p <= 1) {
			return Errorf(CodeInvalidParameter,
				"The buffer of metric %.130s is %v, expected a fraction from 0 to 1 such as 0.2 for 20 %%.", name, p)
		}
	}
	for name, p := range c.Overbooking {
		if !(p >= 0 && p <= maxOverbooking) && p != -1 {
			return Errorf(CodeInvalidParameter,
				"The overbooking of metric %.130s is %v, expected a fraction from 0 to %d such as 0.2 for 20 %%, or "+
					"-1 for no limit.", name, p, maxOverbooking)
		}
	}
	for name, x := range c.Balancing {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return Errorf(CodeInvalidParameter, "The balancing threshold of metric %.130s is %v, expected a number.",
				name, x)
		}
	}
	for name, x := range c.Activity {
		if x < 0 {
			return Errorf(CodeInvalidParameter,
				"The activity threshold of metric %.130s is %d, but must not be negative.", name, x)
		}
	}
	if c.Rebalancing != nil {
		if err := CheckRebalancing(c.Rebalancing); err != nil {
			return err
		}
	}
	for name, a := range c.Applications {
		if err := checkApplication(name, &a); err != nil {
			return err
		}
	}
	for name, t := range c.NodeTypes {
		for metric, n := range t.Capacities {
			if err := checkMetric(metric); err != nil {
				return err
			}
			if n < 0 {
				return Errorf(CodeInvalidParameter,
					"Node type %.130s has the capacity %d of %.130s, but it must not be negative.", name, n, metric)
			}
		}
	}
	return nil
}

// checkApplication returns an InvalidParameterException for limits that contradict each other. As in
// Service Fabric a reservation must fit into the capacity, on each instance and in all, and the
// capacity in all must have room for that of the largest number of instances.
func checkApplication(name string, a *Application) error {
	refuse := func(format string, args ...any) error {
		return Errorf(CodeInvalidParameter, "Application %.130s %s.", name, fmt.Sprintf(format, args...))
	}
	switch {
	case name == "":
		return Errorf(CodeInvalidParameter, "An application has no name.")
	case a.MinimumNodes < 0 || a.MaximumNodes < 0 || a.MinimumNodes > math.MaxInt32 || a.MaximumNodes > math.MaxInt32:
		return refuse("has from %d to %d nodes, expected numbers of 0 or more", a.MinimumNodes, a.MaximumNodes)
	case a.MaximumNodes > 0 && a.MinimumNodes > a.MaximumNodes:
		return refuse("has at least %d nodes and at most %d", a.MinimumNodes, a.MaximumNodes)
	}
	for metric, m := range a.Metrics {
		if err := checkMetric(metric); err != nil {
			return err
		}
		for _, n := range []int64{m.NodeCapacity, m.TotalCapacity, m.Reservation} {
			if n < 0 || n > maxApplicationLoad {
				return refuse("has the number %d for metric %s, expected 0 to %d", n, metric, int64(maxApplicationLoad))
			}
		}
		switch {
		case m.NodeCapacity > 0 && m.Reservation > m.NodeCapacity:
			return refuse("reserves %d of metric %s on each node, but may use %d there", m.Reservation, metric,
				m.NodeCapacity)
		case m.TotalCapacity > 0 && m.Reservation*int64(max(1, a.MinimumNodes)) > m.TotalCapacity:
			return refuse("reserves %d of metric %s on %d nodes, but may use %d in all", m.Reservation, metric,
				max(1, a.MinimumNodes), m.TotalCapacity)
		case m.TotalCapacity > 0 && m.NodeCapacity*int64(a.MaximumNodes) > m.TotalCapacity:
			return refuse("may use %d of metric %s on each of %d nodes, but %d in all; expected at least %d in all",
				m.NodeCapacity, metric, a.MaximumNodes, m.TotalCapacity, m.NodeCapacity*int64(a.MaximumNodes))
		}
	}
	return checkApplicationName(name)
}

// maxApplicationLoad times the largest number of instances is below what 64 bits hold.
const maxApplicationLoad = 1<<31 - 1

// maxOverbooking is a thousand times the capacity. A larger value is meant as no limit, which is
// -1.
const maxOverbooking = 1000

// IsEmpty reports whether no rule is set.
func (r *Rules) IsEmpty() bool {
	return len(r.Constraints)+len(r.Strategies)+len(r.Metrics)+len(r.Tolerations) == 0 && r.NodeConstraint == "" &&
		r.DomainPolicy == "" && r.MoveCost == "" && r.Scoring == "" && r.Rebalancing == "" && r.Scaling == nil &&
		len(r.Providers) == 0 && !r.External && r.Affinity == "" && r.Application == ""
}

// MayForceMoves reports whether tasks under these rules may have to leave an instance that they run
// on (P3, P8, P10, P15). ECS's own rules apply only when a task is placed.
func (r *Rules) MayForceMoves() bool {
	return r.Rebalancing == SwitchOn || r.NodeConstraint != "" || len(r.Metrics) > 0 || r.Affinity != "" ||
		r.Application != "" || r.DomainPolicy != "" && r.DomainPolicy != PolicyNone
}

// CheckRebalancing returns an InvalidParameterException for numbers out of range and for names that
// cannot be metrics.
func CheckRebalancing(r *Rebalancing) error {
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(r.Weights)), slices.Sorted(maps.Keys(r.SafetyLevels)),
		r.EmptyMetrics) {
		if err := checkMetric(name); err != nil && name != "CPU" && name != "MEMORY" {
			return err
		}
	}
	for name, w := range r.Weights {
		if !(w >= 0 && w <= maxBalanceWeight) {
			return Errorf(CodeInvalidParameter, "The balancing weight of %.130s is %v, expected 0 to %d.", name, w,
				maxBalanceWeight)
		}
	}
	for name, s := range r.SafetyLevels {
		if !(s > 0 && s <= 1) {
			return Errorf(CodeInvalidParameter,
				"The safety level of %.130s is %v, expected more than 0 and at most 1, such as 0.8 for 80 %%.", name, s)
		}
	}
	for _, x := range []struct {
		name    string
		n, most int
	}{
		{"settleSeconds", r.SettleSeconds, maxSeconds}, {"intervalSeconds", r.IntervalSeconds, maxSeconds},
		{"windowSeconds", r.WindowSeconds, maxSeconds}, {"movesAtOnce", r.MovesAtOnce, maxMovesAtOnce},
		{"serviceMovesAtOnce", r.ServiceMovesAtOnce, maxMovesAtOnce}, {"movesInWindow", r.MovesInWindow, math.MaxInt32},
		{"serviceMovesInWindow", r.ServiceMovesInWindow, math.MaxInt32},
		{"emptyInstances", r.EmptyInstances, math.MaxInt32},
	} {
		if x.n < 0 || x.n > x.most {
			return Errorf(CodeInvalidParameter, "%s is %d, but must be between 0 and %d.", x.name, x.n, x.most)
		}
	}
	for name, share := range map[string]float64{"serviceShare": r.ServiceShare, "emptyShare": r.EmptyShare} {
		if !(share >= 0 && share <= 1) {
			return Errorf(CodeInvalidParameter, "%s is %v, expected a fraction from 0 to 1.", name, share)
		}
	}
	if (r.EmptyInstances > 0 || r.EmptyShare > 0) && len(r.EmptyMetrics) == 0 || r.EmptyInstances > 0 &&
		r.EmptyShare > 0 {
		return Errorf(CodeInvalidParameter, "To empty instances, name the metrics in emptyMetrics and at most one of "+
			"emptyInstances and emptyShare.")
	}
	return nil
}

// LoadScaling changes a service's desired count by the average load of its RUNNING tasks (Service
// Fabric, "Auto scaling": AveragePartitionLoadScalingTrigger,
// PartitionInstanceCountScaleMechanism).
type LoadScaling struct {
	Metric string `json:"m"` // one of the service's
	// Below Lower the count falls by Increment, above Upper it rises.
	Lower     float64 `json:"l"`
	Upper     float64 `json:"u"`
	Increment int     `json:"s"`
	// The count stays from Min to Max. With a Max of -1 it rises to the number of instances that could
	// run the tasks at most, and may be above that otherwise.
	Min             int `json:"a"`
	Max             int `json:"z"`
	IntervalSeconds int `json:"i"` // from one look at the load to the next
}

// The limits of [LoadScaling]. Reported loads are applied every ten seconds.
const (
	leastScalingInterval   = 10
	mostScalingInterval    = 24 * 60 * 60
	defaultScalingInterval = 60
	mostScalingIncrement   = 1000
	mostScalingLoad        = 1e15
)

// Interval returns the time from one look at the load to the next.
func (l *LoadScaling) Interval() time.Duration { return time.Duration(l.IntervalSeconds) * time.Second }

// String returns the text that [ReadLoadScaling] reads.
func (l *LoadScaling) String() string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	return fmt.Sprintf("metric=%s lower=%s upper=%s min=%d max=%d increment=%d interval=%d", l.Metric, number(l.Lower),
		number(l.Upper), l.Min, l.Max, l.Increment, l.IntervalSeconds)
}

var scalingMembers = []string{"metric", "lower", "upper", "min", "max", "increment", "interval"}

// ReadLoadScaling reads members in any order: "metric=connections lower=100 upper=400 min=2
// max=10". increment is 1 and interval 60 if they are missing. An empty text is nil. What cannot be
// read is an InvalidParameterException that says what is expected.
func ReadLoadScaling(text string) (*LoadScaling, error) {
	if text == "" {
		return nil, nil
	}
	given := map[string]string{"increment": "1", "interval": strconv.Itoa(defaultScalingInterval)}
	seen := map[string]bool{}
	for _, member := range strings.Fields(text) {
		name, value, _ := strings.Cut(member, "=")
		if !slices.Contains(scalingMembers, name) {
			return nil, Errorf(CodeInvalidParameter, "Scaling, such as metric=connections lower=100 upper=400 min=2 "+
				"max=10, has no member %.40q, %s", name, choice.Expected(name, scalingMembers))
		}
		if seen[name] {
			return nil, Errorf(CodeInvalidParameter, "Scaling has the member %s twice.", name)
		}
		given[name], seen[name] = value, true
	}
	l := &LoadScaling{Metric: given["metric"]}
	if err := checkMetric(l.Metric); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		name string
		to   *float64
	}{{"lower", &l.Lower}, {"upper", &l.Upper}} {
		x, err := strconv.ParseFloat(given[of.name], 64)
		if err != nil || !(x >= 0 && x <= mostScalingLoad) {
			return nil, Errorf(CodeInvalidParameter, "The member %s of scaling is %.40q, expected a load from 0 to %g.",
				of.name, given[of.name], mostScalingLoad)
		}
		*of.to = x
	}
	for _, of := range []struct {
		name        string
		to          *int
		least, most int
	}{
		{"min", &l.Min, 1, math.MaxInt32}, {"max", &l.Max, -1, math.MaxInt32},
		{"increment", &l.Increment, 1, mostScalingIncrement},
		{"interval", &l.IntervalSeconds, leastScalingInterval, mostScalingInterval},
	} {
		n, err := strconv.Atoi(given[of.name])
		if err != nil || n < of.least || n > of.most {
			return nil, Errorf(CodeInvalidParameter, "The member %s of scaling is %.40q, expected a whole number from "+
				"%d to %d.", of.name, given[of.name], of.least, of.most)
		}
		*of.to = n
	}
	return l, l.check()
}

// check compares the members with each other.
func (l *LoadScaling) check() error {
	switch {
	case l.Lower >= l.Upper:
		return Errorf(CodeInvalidParameter,
			"Scaling has lower %g and upper %g, expected a lower one below the upper one.",
			l.Lower, l.Upper)
	case l.Max != -1 && l.Max < l.Min:
		return Errorf(CodeInvalidParameter,
			"Scaling has min %d and max %d, expected a max of %d or more, or of -1 for "+
				"the number of instances.", l.Min, l.Max, l.Min)
	}
	return nil
}
