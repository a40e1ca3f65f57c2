package problem

import (
	"fmt"
	"slices"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/handler"
)

// disconnected are the ACTIVE instances whose agents are not connected, and how many tasks are there.
type disconnected struct {
	instances []string
	since     time.Time // when the first of them was seen; zero if that is unknown
	tasks     int
	// replaceable are the tasks of REPLICA services that are replaced if this lasts, replacing those
	// that are because it has. Nothing replaces standalone ones. Stopping ones were told to stop.
	replaceable, replacing, standalone, stopping int
	timeout                                      time.Duration
	isDefault                                    bool // the installation did not say which timeout holds
}

// checkDisconnected reports instances whose agents are not connected.
func checkDisconnected(f *finder) {
	var d disconnected
	d.timeout, d.isDefault = disconnectTimeout(&f.in)
	for _, v := range f.in.Snapshot.Instances {
		if v.Instance == nil || v.Status != cluster.InstanceActive || v.AgentConnected {
			continue
		}
		d.instances = append(d.instances, v.ID)
		if at := v.DisconnectedAt.Time(); !v.DisconnectedAt.IsZero() && (d.since.IsZero() || at.Before(d.since)) {
			d.since = at
		}
		d.tasks += len(v.Tasks)
		for _, t := range v.Tasks {
			s := f.in.Snapshot.Services[t.Service]
			switch {
			case !t.IsActive():
				d.stopping++
			case t.Service == "":
				d.standalone++
			case s != nil && s.Strategy == cluster.Daemon:
			case !v.DisconnectedAt.IsZero() && f.in.Now.Sub(v.DisconnectedAt.Time()) > d.timeout:
				d.replacing++
			default:
				d.replaceable++
			}
		}
	}
	if len(d.instances) == 0 {
		return
	}
	slices.Sort(d.instances)
	first := d.instances[0]
	forgotten := "Deregister it if it will not come back"
	if d.replaceable > 0 {
		forgotten += ": its tasks are replaced at once"
	}
	f.add(Problem{Kind: InstanceLost, Type: "instance", Name: first, Count: len(d.instances),
		What: fmt.Sprintf("The agent of %s is not connected.", whatif.CountNoun(len(d.instances), "instance")),
		Why:  d.String()}, d.since,
		Help{"See what is on it", f.berth("explain instance %s", first)},
		Help{forgotten, f.aws("deregister-container-instance --force --container-instance %s", first)})
}

// disconnectTimeout returns how long an agent may be disconnected before its tasks are replaced
// elsewhere, and whether that is the default because the asked Berth does not say.
func disconnectTimeout(in *Input) (timeout time.Duration, isDefault bool) {
	if in.Capacity == nil || in.Capacity.DisconnectTimeout == nil {
		return handler.DefaultSettings().DisconnectTimeout, true
	}
	return *in.Capacity.DisconnectTimeout, false
}

// describeTimeout returns the timeout in minutes, or in seconds if it is not whole minutes.
func (d *disconnected) describeTimeout() string {
	text := whatif.CountNoun(int(d.timeout.Minutes()), "minute")
	if d.timeout%time.Minute != 0 {
		text = whatif.CountNoun(int(d.timeout.Seconds()), "second")
	}
	if d.isDefault {
		return text + " (parameter LostAfterSeconds, unless it was changed)"
	}
	return text + " (parameter LostAfterSeconds)"
}

// String says what becomes of the instances and of the tasks there.
func (d *disconnected) String() string {
	text := listNames(d.instances) + ": no new tasks start there"
	if d.tasks == 0 {
		return text + ", and none run there."
	}
	timeout := d.describeTimeout()
	if n := d.replaceable; n > 0 {
		text += fmt.Sprintf(". %s of services there %s replaced elsewhere once the agent has been disconnected for "+
			"%s", whatif.CountNoun(n, "task"), isOrAre(n), timeout)
	}
	if n := d.replacing; n > 0 {
		text += fmt.Sprintf(". %s of services there %s being replaced elsewhere: the agent has been disconnected for "+
			"more than %s", whatif.CountNoun(n, "task"), isOrAre(n), timeout)
	}
	if n := d.stopping; n > 0 {
		text += fmt.Sprintf(". %s told to stop there, and will when the agent returns", pastTense(n, "task"))
	}
	if n := d.standalone; n > 0 {
		text += fmt.Sprintf(". %s there %s not replaced", whatif.CountNoun(n, "standalone task"), isOrAre(n))
	}
	return text + "."
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
