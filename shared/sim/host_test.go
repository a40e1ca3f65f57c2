package sim_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

const computeVersion = "2016-11-15"

// compute asks EC2 about one instance, and returns the answer.
func (w *groupWorld) compute(action, id string, more ...string) string {
	w.t.Helper()
	status, answer := w.asked(computeVersion, action, append([]string{"InstanceId.1", id}, more...)...)
	if status != http.StatusOK {
		w.t.Fatalf("%s: %s", action, answer)
	}
	return answer
}

func (w *groupWorld) wantIn(answer string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if !strings.Contains(answer, part) {
			w.t.Errorf("%s does not say %s", answer, part)
		}
	}
}

// A terminated instance of a group is replaced. EC2 still describes it.
func TestTerminateInstances(t *testing.T) {
	w := newGroupWorld(t, 2, nil)
	w.clock.advance(launch)
	id := w.group().Instances[0].ID
	w.wantIn(w.compute("TerminateInstances", id),
		"<currentState><code>32</code><name>shutting-down</name></currentState>",
		"<previousState><code>16</code><name>running</name></previousState>")
	w.want("registered", w.registered(), 1)
	w.wantIn(w.compute("DescribeInstances", id),
		"<instanceState><code>48</code><name>terminated</name></instanceState>",
		"<instanceType>m5.large</instanceType>")
	w.wantIn(w.compute("TerminateInstances", id), "<currentState><code>48</code><name>terminated</name></currentState>")
	w.clock.advance(retry + launch)
	w.want("registered", w.registered(), 2)
	for _, i := range w.group().Instances {
		if i.ID == id {
			t.Errorf("%s is still in the group", id)
		}
	}
}

// One that is being launched has not registered yet: it never does, and another is launched.
func TestTerminateAnInstanceThatIsPending(t *testing.T) {
	w := newGroupWorld(t, 1, nil)
	id := w.group().Instances[0].ID
	_, answer := w.asked(computeVersion, "DescribeInstances", "Filter.1.Name", "tag:aws:autoscaling:groupName",
		"Filter.1.Value.1", "g", "Filter.2.Name", "instance-state-name", "Filter.2.Value.1", "pending")
	w.wantIn(answer, "<instanceId>"+id+"</instanceId>",
		"<tagSet><item><key>aws:autoscaling:groupName</key><value>g</value></item></tagSet>")
	w.compute("TerminateInstances", id)
	w.clock.advance(launch)
	w.want("registered", w.registered(), 0)
	w.clock.advance(retry + launch)
	w.want("registered", w.registered(), 1)
	if got := w.group().Instances[0].ID; got == id {
		t.Errorf("%s is in service, and was terminated", got)
	}
}

// A stopped machine outside of groups can be started again. The tasks on it have ended.
func TestStopAndStartInstances(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	task := w.start("web:1", id)[0].ID
	w.clock.advance(launch)
	machine := w.instance(id).EC2InstanceID
	g := &groupWorld{t, w.clock, w.AWS}
	g.wantIn(g.compute("StopInstances", machine), "<name>stopping</name>", "<name>running</name>")
	if i := w.instance(id); i.AgentConnected || i.Status != cluster.InstanceActive {
		t.Errorf("instance %+v, want it disconnected", i)
	}
	if err := w.Machines.ReconnectAgent(id); err == nil || !strings.Contains(err.Error(), machine) {
		t.Errorf("its agent is connected again: %v", err)
	}
	g.wantIn(g.compute("DescribeInstances", machine), "<code>80</code><name>stopped</name>")
	g.wantIn(g.compute("StartInstances", machine), "<name>pending</name>", "<name>stopped</name>")
	w.clock.advance(launch)
	if i := w.instance(id); !i.AgentConnected {
		t.Errorf("instance %+v, want it connected", i)
	}
	if got := w.task(task); got.Last != cluster.TaskStopped || got.ExitCode == nil || *got.ExitCode != 137 {
		t.Errorf("task %+v, want it STOPPED", got)
	}
}

// A group replaces a stopped machine, by EC2's health check.
func TestAGroupReplacesAStoppedInstance(t *testing.T) {
	w := newGroupWorld(t, 2, nil)
	w.clock.advance(launch)
	id := w.group().Instances[0].ID
	w.compute("StopInstances", id)
	w.clock.advance(retry + launch)
	w.want("registered", w.registered(), 2)
	w.wantIn(w.compute("DescribeInstances", id), "<name>terminated</name>")
	w.wantIn(w.scaling("DescribeScalingActivities", "AutoScalingGroupName", "g"), "health check", id)
}

// A call with a wrong id changes nothing.
func TestInstancesThatCannotBeChanged(t *testing.T) {
	w := newGroupWorld(t, 1, nil)
	w.clock.advance(launch)
	id := w.group().Instances[0].ID
	for _, c := range []struct {
		action, want string
		fields       []string
	}{
		{"TerminateInstances", "<Code>InvalidInstanceID.NotFound</Code>",
			[]string{"InstanceId.1", id, "InstanceId.2", "i-0123456789abcdef0"}},
		{"StopInstances", "<Code>InvalidInstanceID.Malformed</Code>",
			[]string{"InstanceId.1", id, "InstanceId.2", "x"}},
		{"StopInstances", "<Code>MissingParameter</Code>", nil},
		{"StopInstances", "does not know the parameter Force", []string{"InstanceId.1", id, "Force", "true"}},
		{"DescribeInstances", "instance-state-name", []string{"Filter.1.Name", "vpc-id", "Filter.1.Value.1", "x"}},
	} {
		if status, answer := w.asked(computeVersion, c.action, c.fields...); status != http.StatusBadRequest ||
			!strings.Contains(answer, c.want) {
			t.Errorf("%s %q: %d %s, want %s", c.action, c.fields, status, answer, c.want)
		}
	}
	w.compute("TerminateInstances", id)
	if status, answer := w.asked(computeVersion, "StartInstances", "InstanceId.1",
		id); status != http.StatusBadRequest ||
		!strings.Contains(answer, "IncorrectInstanceState") {
		t.Errorf("a terminated instance starts: %s", answer)
	}
}

// EC2 returns what a machine printed at its start, also one that never registers with a cluster.
func TestConsoleOutput(t *testing.T) {
	w := newGroupWorld(t, 1, nil)
	w.clock.advance(launch)
	id := w.group().Instances[0].ID
	answer := w.compute("DescribeInstances", id)
	status, output := w.asked(computeVersion, "GetConsoleOutput", "InstanceId", id)
	_, text, _ := strings.Cut(output, "<output>")
	text, _, _ = strings.Cut(text, "</output>")
	printed, err := base64.StdEncoding.DecodeString(text)
	if status != http.StatusOK || err != nil || !strings.Contains(string(printed), id) ||
		!strings.Contains(answer, "<instanceId>"+id) {
		t.Errorf("%d %s: %q, %v", status, output, printed, err)
	}
	if status, answer := w.asked(computeVersion, "GetConsoleOutput", "InstanceId", "i-0123456789abcdef0"); status ==
		http.StatusOK || !strings.Contains(answer, "InvalidInstanceID.NotFound") {
		t.Errorf("of none: %d %s", status, answer)
	}
}
