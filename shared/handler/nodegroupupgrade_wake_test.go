package handler_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// launchedIn is the event of an instance that came into service in an Auto Scaling group.
func launchedIn(group string) string {
	return `{"source": "aws.autoscaling", "detail-type": "EC2 Instance Launch Successful", "account": "1", "region": "r",
		"detail": {"AutoScalingGroupName": "` + group + `", "EC2InstanceId": "i-1"}}`
}

// A message makes node-group-upgrade reconcile the cluster that it names, or that of the node group
// whose Auto Scaling group it names. The same again writes nothing.
func TestNodeGroupUpgrade_Wakes(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		active bool
	}{
		"ByAWakeUp":                 {`{"cluster": "` + prod + `"}`, true},
		"ByItsAutoScalingGroup":     {launchedIn("a"), true},
		"NotByAnotherGroup":         {launchedIn("other"), false},
		"NotForAnotherCluster":      {`{"cluster": "other"}`, false},
		"NotByAWakeUpOfNothing":     {`{"cluster": ""}`, false},
		"NotByAnEventOfSomeoneElse": {`{"source": "x", "detail-type": "EC2 Instance Launch Successful"}`, false},
		"NotByAForeignAccount": {`{"source": "aws.autoscaling", "detail-type": "EC2 Instance Launch Successful",
			"account": "2", "region": "r", "detail": {"AutoScalingGroupName": "a", "EC2InstanceId": "i-1"}}`, false},
		"NotByText": {`{`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n, _ := groupsOf(w)
			n.function.Decoder = awsevent.Decoder{Account: "1", Region: "r"}
			if _, err := w.api.NodeGroups.CreateNodeGroup(ctx, operation.CreateNodeGroup{
				Cluster: prod, Name: "web", AutoScalingGroup: "a", Params: "p"}); err != nil {
				t.Fatal(err)
			}
			messages := []state.Message{{ID: "1", Body: []byte(c.body)}, {ID: "2", Body: []byte(c.body)}}
			want(t, "failed", len(n.function.HandleMessages(ctx, messages)), 0)
			g := rows[*cluster.NodeGroup](w, state.PrefixNodeGroup)[0]
			want(t, "active", g.Status == cluster.NodeGroupActive, c.active)
			want(t, "failed", len(n.function.HandleMessages(ctx, messages)), 0)
			want(t, "writes", rows[*cluster.NodeGroup](w, state.PrefixNodeGroup)[0].Rev, g.Rev)
		})
	}
	t.Run("AgainAfterAnError", func(t *testing.T) {
		w := newWorld(t)
		n, _ := groupsOf(w)
		if _, err := w.api.NodeGroups.CreateNodeGroup(ctx, operation.CreateNodeGroup{
			Cluster: prod, Name: "web", AutoScalingGroup: "a", Params: "p"}); err != nil {
			t.Fatal(err)
		}
		messages := []state.Message{{ID: "1", Body: []byte(`{"cluster": "` + prod + `"}`)},
			{ID: "2", Body: []byte(`x`)}}
		n.function.State = unreadable{w.state}
		want(t, "failed", len(n.function.HandleMessages(ctx, messages)), 1)
		n.function.State = w.state
		want(t, "failed", len(n.function.HandleMessages(ctx, messages)), 0)
	})
}

// unreadable is a store that lists nothing.
type unreadable struct{ state.Store }

func (unreadable) List(context.Context, state.Range) ([]state.Row, error) {
	return nil, errors.New("no answer")
}

// Dispatch wakes node-group-upgrade for what the API writes, and for nothing that it writes itself.
func TestDispatch_WakesUpgrades(t *testing.T) {
	group := func(s cluster.NodeGroupStatus) *cluster.NodeGroup {
		return &cluster.NodeGroup{Head: cluster.Head{Cluster: prod, Rev: 1}, Name: "web", Status: s}
	}
	for name, c := range map[string]struct {
		old, next *cluster.NodeGroup
		wakes     int
	}{
		"Creating":      {nil, group(cluster.NodeGroupCreating), 1},
		"Updating":      {group(cluster.NodeGroupActive), group(cluster.NodeGroupUpdating), 1},
		"Deleting":      {group(cluster.NodeGroupCreateFailed), group(cluster.NodeGroupDeleting), 1},
		"StillDeleting": {group(cluster.NodeGroupDeleting), group(cluster.NodeGroupDeleting), 0},
		"Active":        {group(cluster.NodeGroupUpdating), group(cluster.NodeGroupActive), 0},
		"Failed":        {group(cluster.NodeGroupCreating), group(cluster.NodeGroupCreateFailed), 0},
		"Deleted":       {group(cluster.NodeGroupDeleting), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			box := &mailbox{}
			w.dispatch.Upgrades = box
			r := state.Record{Op: state.Modify, Key: state.NodeGroupKey(prod, "web")}
			if c.old != nil {
				r.Old = c.old
			}
			if c.next != nil {
				r.New = c.next
			}
			if _, err := w.dispatch.HandleRecords(ctx, []state.Record{r, r}); err != nil {
				t.Fatal(err)
			}
			want(t, "wake-ups", len(box.messages), c.wakes)
			for _, m := range box.messages {
				name, ok := handler.WokenCluster(m.Body)
				want(t, "named", ok && name == prod, true)
			}
		})
	}
}

// An instance that changes wakes node-group-upgrade only in clusters whose node groups may wait for
// it.
func TestDispatch_WakesUpgradesForInstances(t *testing.T) {
	for status, wakes := range map[cluster.NodeGroupStatus]int{
		"": 0, cluster.NodeGroupActive: 1, cluster.NodeGroupUpdating: 1, cluster.NodeGroupCreateFailed: 0,
	} {
		w := newWorld(t)
		box := &mailbox{}
		w.dispatch.Upgrades = box
		if status != "" {
			g := &cluster.NodeGroup{Head: cluster.Head{Cluster: prod}, Name: "web", Status: status}
			if _, err := w.state.Write(ctx, state.Write{Put: g, Any: true}); err != nil {
				t.Fatal(err)
			}
		}
		i := &cluster.Instance{Head: cluster.Head{Cluster: prod, Rev: 1}, ID: "i", Status: cluster.InstanceActive}
		r := state.Record{Op: state.Insert, Key: state.KeyOf(i), New: i}
		if _, err := w.dispatch.HandleRecords(ctx, []state.Record{r, r}); err != nil {
			t.Fatal(err)
		}
		want(t, "wake-ups beside a node group "+string(status), len(box.messages), wakes)
	}
}

// Services that recover and tasks that leave room wake node-group-upgrade only while an update
// waits for them.
func TestDispatch_WakesUpgradesBetweenDomains(t *testing.T) {
	service := func(enough bool) *cluster.Service {
		s := &cluster.Service{Head: cluster.Head{Cluster: prod}}
		s.Name, s.EnoughHealthy = "web", enough
		return s
	}
	task := func(last cluster.TaskStatus) *cluster.Task {
		t := &cluster.Task{Head: cluster.Head{Cluster: prod}}
		t.ID, t.Instance, t.Last = "t", "i", last
		return t
	}
	waitsForServices := func(u *cluster.Update) { u.DomainReplacedAt = time.Unix(1, 0) }
	waitsForRoom := func(u *cluster.Update) { u.WaitingSince = time.Unix(1, 0) }
	for name, c := range map[string]struct {
		old, next state.Row
		update    func(*cluster.Update)
		wakes     int
	}{
		"Recovers":            {service(false), service(true), waitsForServices, 1},
		"RecoversUnawaited":   {service(false), service(true), waitsForRoom, 0},
		"StillUnhealthy":      {service(false), service(false), waitsForServices, 0},
		"HealthyBefore":       {service(true), service(true), waitsForServices, 0},
		"Fails":               {service(true), service(false), waitsForServices, 0},
		"LeavesRoom":          {task(cluster.TaskRunning), task(cluster.TaskStopped), waitsForRoom, 1},
		"LeftRoomBefore":      {task(cluster.TaskStopped), task(cluster.TaskStopped), waitsForRoom, 0},
		"LeavesRoomUnawaited": {task(cluster.TaskRunning), task(cluster.TaskStopped), waitsForServices, 0},
		"NoUpdate":            {task(cluster.TaskRunning), task(cluster.TaskStopped), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			box := &mailbox{}
			w.dispatch.Upgrades = box
			if c.update != nil {
				u := &cluster.Update{Head: cluster.Head{Cluster: prod}, NodeGroup: "web", ID: "u"}
				u.Phase, u.ByDomain, u.Status = cluster.PhaseUpgrade, true, cluster.UpdateInProgress
				c.update(u)
				g := &cluster.NodeGroup{Head: cluster.Head{Cluster: prod}, Name: "web", Update: "u",
					Status: cluster.NodeGroupUpdating}
				for _, row := range []state.Row{u, g} {
					if _, err := w.state.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
						t.Fatal(err)
					}
				}
			}
			r := state.Record{Op: state.Modify, Key: state.KeyOf(c.next), Old: c.old, New: c.next}
			if _, err := w.dispatch.HandleRecords(ctx, []state.Record{r, r}); err != nil {
				t.Fatal(err)
			}
			want(t, "wake-ups", len(box.messages), c.wakes)
		})
	}
}

// A due row of an update wakes node-group-upgrade once, when its time has come.
func TestDispatch_WakesUpgradesWhenAWaitIsOver(t *testing.T) {
	w := newWorld(t)
	box := &mailbox{}
	w.dispatch.Upgrades = box
	for _, wait := range []time.Duration{time.Minute, time.Minute, 2 * time.Minute} {
		due := &state.Due{Head: cluster.Head{Cluster: prod}, At: w.clock.now.Add(wait), Kind: state.DueNodeGroup,
			Subject: "web"}
		if _, err := w.state.Write(ctx, state.Write{Put: due, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	message := []state.Message{{ID: "1", Body: []byte(`{"cluster": "` + prod + `"}`)}}
	for _, c := range []struct {
		passed time.Duration
		woken  int
	}{{0, 0}, {time.Minute, 1}, {0, 1}, {time.Minute, 2}} {
		w.clock.now = w.clock.now.Add(c.passed)
		w.dispatch.HandleMessages(ctx, message)
		want(t, "wake-ups", len(box.messages), c.woken)
	}
}

// delays records after which delay each message was sent. The first failures are refused.
type delays struct {
	sent     []time.Duration
	failures int
}

func (d *delays) Send(_ context.Context, _ []byte, delay time.Duration) error {
	if d.failures > 0 {
		d.failures--
		return errors.New("no answer")
	}
	d.sent = append(d.sent, delay)
	return nil
}

// However fast instances change, one cluster's wake-ups are a second apart. A change while one is
// on its way sends none: that one arrives after the change and finds it.
func TestDispatch_SpacesWakeUps(t *testing.T) {
	for name, c := range map[string]struct {
		at       []time.Duration // of the changes
		failures int
		want     []time.Duration
	}{
		"AtTheSameTime":       {[]time.Duration{0, 0, 0, 0}, 0, []time.Duration{0, time.Second}},
		"ASecondApart":        {[]time.Duration{0, time.Second, 2 * time.Second}, 0, []time.Duration{0, 0, 0}},
		"AlmostASecondApart":  {[]time.Duration{0, 900 * time.Millisecond}, 0, []time.Duration{0, 0}},
		"WhileOneIsOnItsWay":  {[]time.Duration{0, 400e6, 1399e6}, 0, []time.Duration{0, time.Second}},
		"AfterThatOneArrived": {[]time.Duration{0, 400e6, 1401e6}, 0, []time.Duration{0, time.Second, time.Second}},
		"AfterTheClockWentBack": {[]time.Duration{0, 0, -time.Hour, -time.Hour}, 0,
			[]time.Duration{0, time.Second, 0, time.Second}},
		"AfterARefusal": {[]time.Duration{0, 0}, 1, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			box := &delays{failures: c.failures}
			w.dispatch.Upgrades = box
			g := &cluster.NodeGroup{Head: cluster.Head{Cluster: prod}, Name: "web", Status: cluster.NodeGroupActive}
			if _, err := w.state.Write(ctx, state.Write{Put: g, Any: true}); err != nil {
				t.Fatal(err)
			}
			began := w.clock.now
			for _, after := range c.at {
				w.clock.now = began.Add(after)
				i := &cluster.Instance{Head: cluster.Head{Cluster: prod, Rev: 1}, ID: "i",
					Status: cluster.InstanceActive}
				r := state.Record{Op: state.Insert, Key: state.KeyOf(i), New: i}
				if _, err := w.dispatch.HandleRecords(ctx, []state.Record{r}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(box.sent, c.want) {
				t.Errorf("changes after %v send wake-ups with delays of %v, want %v", c.at, box.sent, c.want)
			}
		})
	}
}

// A look that was put off before the clock went back puts off none afterwards.
func TestLooksAfterTheClockWentBack(t *testing.T) {
	var looks handler.Looks
	scheduled := 0
	schedule := func(time.Time) error { scheduled++; return nil }
	for _, now := range []time.Time{epoch.Add(time.Hour), epoch} {
		looks.Begin(prod, now)
		deferred, err := looks.Defer(prod, now.Add(time.Millisecond), schedule)
		want(t, "deferred", deferred, true)
		want(t, "error", err, nil)
	}
	want(t, "looks that are scheduled", scheduled, 2)
}

// countedLooks is a store that remembers when the node groups of a cluster were listed: once for
// each look.
type countedLooks struct {
	state.Store
	clock *manualClock
	at    []time.Time
}

func (s *countedLooks) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if r == state.Prefix(prod, state.PrefixNodeGroup) {
		s.at = append(s.at, s.clock.now)
	}
	return s.Store.List(ctx, r)
}

// A thousand instances that are launched together cause at most two looks a second: one at once,
// and one by a due row. After each event a look follows within a second.
func TestNodeGroupUpgrade_SpacesLooksForEvents(t *testing.T) {
	for name, c := range map[string]struct {
		gap   time.Duration // between batches of ten
		looks int           // with those of the due rows
	}{
		"AtOnce":         {0, 2},
		"Within5Seconds": {50 * time.Millisecond, 10},
		"EverySecond":    {time.Second, 100},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n, _ := groupsOf(w)
			if _, err := w.api.NodeGroups.CreateNodeGroup(ctx, operation.CreateNodeGroup{
				Cluster: prod, Name: "web", AutoScalingGroup: "a", Params: "p"}); err != nil {
				t.Fatal(err)
			}
			store := &countedLooks{Store: w.state, clock: w.clock}
			n.function.State = store
			var events []time.Time
			for range 100 {
				batch := slices.Repeat([]state.Message{{ID: "1", Body: []byte(launchedIn("a"))}}, 10)
				want(t, "failed", len(n.function.HandleMessages(ctx, batch)), 0)
				events = append(events, w.clock.now)
				w.clock.now = w.clock.now.Add(c.gap)
			}
			looks := slices.Clone(store.at)
			for _, d := range rows[*state.Due](w, state.PrefixDue) {
				looks = append(looks, d.At)
			}
			if len(looks) > c.looks {
				t.Errorf("%d looks, want at most %d", len(looks), c.looks)
			}
			for _, at := range events {
				if !slices.ContainsFunc(looks, func(look time.Time) bool {
					return !look.Before(at) && look.Sub(at) <= time.Second
				}) {
					t.Errorf("no look follows the event of %s: %v", at, looks)
				}
			}
		})
	}
}

// If the due row cannot be written, the event is delivered again.
func TestNodeGroupUpgrade_EventsThatCannotWaitComeAgain(t *testing.T) {
	w := newWorld(t)
	n, _ := groupsOf(w)
	if _, err := w.api.NodeGroups.CreateNodeGroup(ctx, operation.CreateNodeGroup{
		Cluster: prod, Name: "web", AutoScalingGroup: "a", Params: "p"}); err != nil {
		t.Fatal(err)
	}
	batch := []state.Message{{ID: "1", Body: []byte(launchedIn("a"))}}
	want(t, "failed", len(n.function.HandleMessages(ctx, batch)), 0)
	n.function.State = unwritable{w.state}
	want(t, "failed", len(n.function.HandleMessages(ctx, batch)), 1)
	n.function.State = w.state
	want(t, "failed", len(n.function.HandleMessages(ctx, batch)), 0)
	want(t, "due rows", len(rows[*state.Due](w, state.PrefixDue)), 1)
	w.clock.now = w.clock.now.Add(-time.Hour) // the clock goes back
	want(t, "failed", len(n.function.HandleMessages(ctx, batch)), 0)
	want(t, "due rows", len(rows[*state.Due](w, state.PrefixDue)), 1)
}

// unwritable is a store that writes nothing.
type unwritable struct{ state.Store }

func (unwritable) Write(context.Context, state.Write) (state.Row, error) {
	return nil, errors.New("no answer")
}
