package placement

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

func newBufferComponent(f feasibility) Component {
	c := Component{Name: "needs the buffer", Text: "no", words: "has room without its buffer", plain: true}
	if f != unbuffered {
		c.Value, c.Text = 1, "yes"
	}
	return c
}

func newRequestOrderComponent(at int) Component {
	return Component{Name: "requested order", Value: float64(at), Text: strconv.Itoa(at + 1),
		words: "comes first in the requested order"}
}

// newComponent returns what a step compares of the instance, in words.
func (scan *fullScan) newComponent(s *step, i int) Component {
	chooser := scan.chooser
	n := scan.stepValue(s, i)
	c := Component{Name: s.name, Value: float64(n), Text: strconv.FormatInt(n, 10)}
	switch {
	case s.kind == byGroup:
		c.words = fmt.Sprintf("has the fewest tasks %s in its %s", scan.describeOwner(),
			spreadGroupName(chooser.order.attributes[s.level]))
	case s.kind == byCount:
		c.words = "has the fewest tasks " + scan.describeOwner()
	case s.kind == byScore:
		c.Value = chooser.order.scorer.Score(chooser.engine.views[i], &chooser.spec.Needs)
		c.Text, c.words = strconv.FormatFloat(c.Value, 'g', 4, 64), "is the best by "+s.name
	case s.field == freeCPU:
		c.Value = cpuUnits(n)
		c.Text, c.words = formatNumber(c.Value)+" units", "has the least CPU free"
	case s.field == freeMemory:
		c.Text, c.words = c.Text+" MiB", "has the least memory free"
	case s.field == allTasks:
		c.words = "has the fewest tasks in total"
	default:
		c.Value, c.Text, c.words = 0, scan.describeFree(i)+" free", "is the tightest fit"
	}
	return c
}

// describeOwner says which tasks are counted.
func (scan *fullScan) describeOwner() string {
	switch group := scan.chooser.spec.Group; {
	case scan.chooser.spec.Deployment != "":
		return "of the deployment"
	case group == "":
		return "of this kind"
	case strings.HasPrefix(group, serviceGroup):
		return "of the service"
	default:
		return "of group " + group
	}
}

// serviceGroup begins the group of a service's tasks.
const serviceGroup = "service:"

func spreadGroupName(attribute string) string {
	if attribute == cluster.AttributeZone {
		return "zone"
	}
	return attribute
}

// describeFree says what the instance has free without the task.
func (scan *fullScan) describeFree(i int) string {
	e := scan.chooser.engine
	text := fmt.Sprintf("%s CPU units and %d MiB", formatNumber(cpuUnits(e.usages[i].cpu)), e.usages[i].memory)
	if v := e.views[i]; len(v.GPUs) > 0 {
		_, _, free := summarizeDevices(v)
		text = fmt.Sprintf("%s GPUs, %s", formatNumber(float64(free)/cluster.WholeGPU), text)
	}
	return text
}

// formatNumber writes a number with at most three decimals and no exponent.
func formatNumber(x float64) string { return strconv.FormatFloat(math.Round(x*1000)/1000, 'f', -1, 64) }

// ExplainOver says why the task prefers c to the other candidate, which it must; label stands
// before the other's id: "i-3 has the fewest tasks of the service in its zone (1, runner-up i-7:
// 2)".
func (c *Candidate) ExplainOver(other *Candidate, label string) string {
	at := c.DecidingComponent(other)
	is, was := c.Key[at], other.Key[at]
	name := strings.TrimSpace(label + " " + other.Instance)
	if is.plain {
		return fmt.Sprintf("%s %s (%s)", c.Instance, is.words, name)
	}
	return fmt.Sprintf("%s %s (%s, %s: %s)", c.Instance, is.words, is.Text, name, was.Text)
}

// String returns one line: "12 instances: 5 insufficient memory (needs 1024 MiB, best free 812), 3
// not active (DRAINING); of the 4 that can run it, i-3 has the fewest tasks of the service in its
// zone (1, runner-up i-7: 2)".
func (e *Explanation) String() string {
	d := &e.Diagnosis
	text := fmt.Sprintf("%d instances", d.Evaluated)
	if d.Evaluated == 1 {
		text = "1 instance"
	}
	if _, refused, ok := strings.Cut(d.String(), ": "); ok {
		text += ": " + refused
	}
	switch {
	case d.Evaluated == 0:
		return text
	case e.Best == nil:
		text += "; none can run it"
		if d.Closest != "" {
			text += fmt.Sprintf(", closest is %s (%s)", d.Closest, d.ClosestFilter)
		}
	case e.RunnerUp == nil:
		text += fmt.Sprintf("; only %s can run it", e.Best.Instance)
	default:
		text += fmt.Sprintf("; of the %d that can run it, %s", d.Feasible, e.Best.ExplainOver(e.RunnerUp, "runner-up"))
	}
	if rules := e.relaxedText(); rules != "" {
		text += "; rules not kept: " + rules
	}
	return text
}

func (e *Explanation) relaxedText() string {
	var out []string
	for _, r := range e.Relaxed {
		out = append(out, string(r))
	}
	return strings.Join(slices.Compact(out), ", ")
}
