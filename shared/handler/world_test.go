package handler_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/handler/dispatch"
	"berth/shared/handler/healthcheck"
	"berth/shared/handler/placement"
	"berth/shared/handler/taskstatechange"
	"berth/shared/operation"
	"berth/shared/state"
)

const prod = "prod"

// epoch is when every test begins.
var epoch = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// manualClock moves only when a test moves it or somebody sleeps.
type manualClock struct {
	now     time.Time
	onSleep func() // what happens meanwhile
}

func (c *manualClock) Now() time.Time { return c.now }

func (c *manualClock) Sleep(_ context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	if c.onSleep != nil {
		c.onSleep()
	}
	return nil
}

// A delayed is one message of the wake-up queue.
type delayed struct {
	at   time.Time
	body []byte
}

// wakeQueue keeps messages until they are due.
type wakeQueue struct {
	t        testing.TB
	clock    *manualClock
	messages []delayed
	sent     []time.Duration
	err      error // of the next calls
}

func (q *wakeQueue) Send(_ context.Context, body []byte, delay time.Duration) error {
	if delay < 0 || delay > handler.MaxWake {
		q.t.Errorf("a message was sent with a delay of %s", delay)
	}
	if q.err != nil {
		return q.err
	}
	q.sent = append(q.sent, delay)
	q.messages = append(q.messages, delayed{q.clock.Now().Add(delay), body})
	return nil
}

// take removes and returns the first message that is due by t.
func (q *wakeQueue) take(t time.Time) (delayed, bool) {
	slices.SortStableFunc(q.messages, func(a, b delayed) int { return a.at.Compare(b.at) })
	if len(q.messages) == 0 || q.messages[0].at.After(t) {
		return delayed{}, false
	}
	m := q.messages[0]
	q.messages = q.messages[1:]
	return m, true
}

// spyState is the store with hooks before a commit and a write, which may do something first or
// fail.
type spyState struct {
	*embedded.Store
	beforeCommit func(c state.Commit) error
	beforeWrite  func(w state.Write) error
	commits      []state.Commit // that held
	lists        int
}

func (s *spyState) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	s.lists++
	return s.Store.List(ctx, r)
}

func (s *spyState) Commit(ctx context.Context, c state.Commit) error {
	if s.beforeCommit != nil {
		if err := s.beforeCommit(c); err != nil {
			return err
		}
	}
	err := s.Store.Commit(ctx, c)
	if err == nil {
		s.commits = append(s.commits, c)
	}
	return err
}

func (s *spyState) Write(ctx context.Context, w state.Write) (state.Row, error) {
	if s.beforeWrite != nil {
		if err := s.beforeWrite(w); err != nil {
			return nil, err
		}
	}
	return s.Store.Write(ctx, w)
}

// world is the cluster "prod", whose functions are woken as template.yaml says, with an ECS that
// behaves.
type world struct {
	t         testing.TB
	clock     *manualClock
	store     *embedded.Store
	state     *spyState // of placement
	ecs       *fakeECS
	wake      *wakeQueue
	placement *placement.Handler
	dispatch  *dispatch.Handler
	observer  *taskstatechange.Handler
	health    *healthcheck.Handler
	api       *api.Handler

	decide, act []state.Record // not yet delivered
	// asleep functions get nothing delivered.
	placementAsleep, dispatchAsleep, observerAsleep bool
	// redelivers delivers records again that placement returns; otherwise they fail the test.
	redelivers bool
	// unfiltered delivers every record to placement except those of its checkpoint.
	unfiltered bool
	batches    int // of placement
	changed    []state.Record
	ids        int
}

var ctx = context.Background()

func newWorld(t testing.TB, change ...func(*handler.Settings)) *world {
	t.Helper()
	w := emptyWorld(t, change...)
	w.ecs.clusters[prod] = true
	if err := w.api.Clusters.ClusterCreated(ctx, prod); err != nil {
		t.Fatal(err)
	}
	w.ecs.define(definition("web", 1, 256, 512))
	w.ecs.define(definition("big", 1, 4096, 8192))
	return w
}

func emptyWorld(t testing.TB, change ...func(*handler.Settings)) *world {
	t.Helper()
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	settings := handler.DefaultSettings()
	for _, f := range change {
		f(&settings)
	}
	clock := &manualClock{now: epoch}
	w := &world{t: t, clock: clock, store: store, state: &spyState{Store: store}, ecs: newFakeECS(clock)}
	w.wake = &wakeQueue{t: t, clock: clock}
	w.placement = w.newPlacement("env-1", settings)
	w.dispatch = &dispatch.Handler{State: store, ECS: w.ecs, Clock: clock, Settings: settings,
		Telemetry: &handler.Telemetry{}}
	w.observer = &taskstatechange.Handler{State: store, ECS: w.ecs, Clock: clock, Settings: settings,
		Telemetry: &handler.Telemetry{}}
	w.health = &healthcheck.Handler{State: store, ECS: w.ecs, Clock: clock, Settings: settings,
		Telemetry: &handler.Telemetry{}}
	w.api = api.New(api.Dependencies{State: store, ECS: w.ecs, Clock: clock, Settings: settings, NewID: func() string {
		w.ids++
		return fmt.Sprintf("%032x", w.ids)
	}})
	store.OnRecords(w.stream)
	return w
}

func (w *world) newPlacement(environment string, settings handler.Settings) *placement.Handler {
	return &placement.Handler{State: w.state, Clock: w.clock, Wake: w.wake, Settings: settings,
		Environment: environment}
}

func definition(family string, revision int, cpu, memory int64) *cluster.TaskDefinition {
	return &cluster.TaskDefinition{
		Family: family, Revision: revision, Needs: cluster.Resources{CPU: cpu * cluster.CPUUnit, Memory: memory},
		Containers: []string{"app"},
	}
}

// stream sorts the store's records as the filters of template.yaml do.
func (w *world) stream(records []state.Record) {
	w.changed = append(w.changed, records...)
	for _, r := range records {
		if passesToPlacement(r) || w.unfiltered && r.Key.Sort != state.PrefixCheckpoint {
			w.decide = append(w.decide, r)
		}
		if passesToDispatch(r) {
			w.act = append(w.act, r)
		}
	}
}

func passesToPlacement(r state.Record) bool {
	switch row := r.Row().(type) {
	case *cluster.Service:
		return r.New != nil && row.Stamp != 0
	case *cluster.Configuration:
		return r.New != nil && row.Stamp != 0
	case *cluster.Instance:
		return r.New != nil
	case *state.Inbox, *state.Request:
		return r.Op == state.Insert
	case *cluster.Target:
		return r.Op != state.Insert
	case *cluster.Throttle, *cluster.AlarmWatch:
		return r.New != nil
	case *cluster.Protection:
		return true
	case *state.Due:
		return r.Op != state.Modify
	}
	return false
}

func passesToDispatch(r state.Record) bool {
	switch row := r.Row().(type) {
	case *cluster.CapacityProvider:
		return r.New != nil && (row.CheckPending || row.UpdateStatus == cluster.ProviderDeleting)
	case *cluster.ClusterProviders:
		return r.New == nil || row.Status == cluster.AttachmentsInProgress
	case *cluster.Instance:
		old, _ := r.Old.(*cluster.Instance)
		return r.New != nil && (old == nil || row.Status != cluster.InstanceActive ||
			old.Status != cluster.InstanceActive)
	case *cluster.Task:
		old, _ := r.Old.(*cluster.Task)
		begins := r.Op == state.Insert && row.Instance == "" && row.Desired == cluster.TaskRunning
		return begins || r.Op == state.Modify && row.Instance != "" && row.Last == cluster.TaskStopped &&
			old.Last != cluster.TaskStopped
	}
	return r.Op == state.Insert && strings.HasPrefix(r.Key.Sort, state.PrefixOutbox)
}

// maxRounds is more than any test needs until nothing happens.
const maxRounds = 300

// pump delivers what there is until nothing happens any more. Time stands still.
func (w *world) pump() {
	w.t.Helper()
	for range maxRounds {
		if !w.round() {
			return
		}
	}
	w.t.Fatalf("still busy after %d rounds; last records: %s", maxRounds, describe(w.decide))
}

func describe(records []state.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Op)+" "+r.Key.Sort)
	}
	return strings.Join(out, ", ")
}

func (w *world) round() (busy bool) {
	w.t.Helper()
	w.ecs.step()
	if events := w.ecs.events; len(events) > 0 && !w.observerAsleep {
		busy, w.ecs.events = true, nil
		w.observe(events...)
	}
	if turned := w.ecs.turned; len(turned) > 0 && !w.observerAsleep {
		busy, w.ecs.turned = true, nil
		w.looks()
	}
	if records := w.decide; len(records) > 0 && !w.placementAsleep {
		busy, w.decide = true, nil
		w.batches++
		w.decides(w.placement, records)
	}
	if records := w.act; len(records) > 0 && !w.dispatchAsleep {
		busy, w.act = true, nil
		w.acts(w.dispatch, records)
	}
	return busy
}

// looks lets health-check ask for the health of all tasks of services whose task definition has a health check.
// A world without load balancers has no registrations to ask about.
func (w *world) looks() {
	w.t.Helper()
	if err := w.health.RunSchedule(ctx, "health"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) decides(p *placement.Handler, records []state.Record) {
	w.t.Helper()
	from, err := p.HandleRecords(ctx, records)
	if err == nil && from != "" && w.redelivers {
		at := slices.IndexFunc(records, func(r state.Record) bool { return r.Sequence == from })
		w.decide = append(slices.Clone(records[at:]), w.decide...)
		return
	}
	if err != nil || from != "" {
		w.t.Fatalf("placement wants records from %s on again: %v", from, err)
	}
}

func (w *world) acts(d *dispatch.Handler, records []state.Record) {
	w.t.Helper()
	if from, err := d.HandleRecords(ctx, records); err != nil || from != "" {
		w.t.Fatalf("dispatch wants records from %s on again: %v", from, err)
	}
}

// observe hands events to the observer, which must accept all of them.
func (w *world) observe(events ...[]byte) {
	w.t.Helper()
	if again := w.observer.HandleMessages(ctx, messages(events...)); len(again) > 0 {
		w.t.Fatalf("messages %v are wanted again", again)
	}
}

func messages(bodies ...[]byte) []state.Message {
	var out []state.Message
	for n, b := range bodies {
		out = append(out, state.Message{ID: fmt.Sprint("m", n), Body: b, Receives: 1})
	}
	return out
}

// advance lets time pass, with everything that falls due.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	end := w.clock.now.Add(d)
	w.pump()
	for {
		m, ok := w.wake.take(end)
		if !ok {
			break
		}
		if m.at.After(w.clock.now) {
			w.clock.now = m.at
			w.pump()
		}
		if again := w.dispatch.HandleMessages(ctx, messages(m.body)); len(again) > 0 {
			w.wake.messages = append(w.wake.messages, delayed{w.clock.now.Add(time.Minute), m.body})
		}
		w.pump()
	}
	w.clock.now = end
	w.pump()
}

// instances registers n instances of one size, named by the prefix, over two zones.
func (w *world) instances(prefix string, n int, cpu, memory int64) []string {
	w.t.Helper()
	var ids []string
	for k := range n {
		id := fmt.Sprintf("%s%03d", prefix, k)
		ids = append(ids, id)
		w.ecs.register(&cluster.Instance{
			Head: cluster.Head{Cluster: prod}, ID: id, EC2InstanceID: "i-" + id,
			Registered: cluster.Capacity{CPU: cpu * cluster.CPUUnit, Memory: memory},
			Attributes: map[string]string{cluster.AttributeZone: fmt.Sprint("zone-", 'a'+rune(k%2))},
		})
	}
	w.pump()
	return ids
}

// create creates a REPLICA service of n tasks.
func (w *world) create(name, definition string, n int) *cluster.Service {
	w.t.Helper()
	return w.createAs(operation.CreateService{Cluster: prod, Name: name, TaskDefinition: definition, Desired: &n})
}

func (w *world) createAs(spec operation.CreateService) *cluster.Service {
	w.t.Helper()
	s, err := w.api.Services.CreateService(ctx, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Service
}

func (w *world) scale(name string, n int) {
	w.t.Helper()
	if _, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: name,
		Desired: &n}); err != nil {
		w.t.Fatal(err)
	}
}

// rows returns the rows of one kind, sorted by key.
func rows[R state.Row](w *world, prefix string) []R {
	w.t.Helper()
	got, err := w.store.List(ctx, state.Prefix(prod, prefix))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []R
	for _, row := range got {
		out = append(out, row.(R))
	}
	return out
}

func (w *world) tasks() []*cluster.Task { return rows[*cluster.Task](w, state.PrefixTask) }

func (w *world) outbox() []*state.Outbox { return rows[*state.Outbox](w, state.PrefixOutbox) }

func (w *world) dues() []*state.Due { return rows[*state.Due](w, state.PrefixDue) }

// with returns the tasks with a status.
func (w *world) with(status cluster.TaskStatus) []*cluster.Task {
	w.t.Helper()
	return slices.DeleteFunc(w.tasks(), func(t *cluster.Task) bool { return t.Status() != status })
}

func (w *world) task(id string) *cluster.Task {
	w.t.Helper()
	at := slices.IndexFunc(w.tasks(), func(t *cluster.Task) bool { return t.ID == id })
	if at < 0 {
		w.t.Fatalf("there is no task %s", id)
	}
	return w.tasks()[at]
}

// service returns a service with its events, newest first.
func (w *world) service(name string) *operation.ServiceDetail {
	w.t.Helper()
	got, missing, err := w.api.Services.DescribeServices(ctx, prod, []string{name})
	if err != nil || len(missing) > 0 {
		w.t.Fatalf("service %s: %v, %v", name, missing, err)
	}
	return got[0]
}

func (w *world) instance(id string) *cluster.Instance {
	w.t.Helper()
	row, err := w.store.Get(ctx, state.InstanceKey(prod, id))
	if err != nil || row == nil {
		w.t.Fatalf("instance %s: %v, %v", id, row, err)
	}
	return row.(*cluster.Instance)
}

func (w *world) version() int64 {
	w.t.Helper()
	row, err := w.store.Get(ctx, state.Key{Cluster: prod, Sort: state.PrefixMeta})
	if err != nil {
		w.t.Fatal(err)
	}
	return row.(*state.Meta).Version
}

// bump moves the placement version as somebody else's commit does.
func (w *world) bump() {
	w.t.Helper()
	if err := w.store.Commit(ctx, state.Commit{Cluster: prod, Version: w.version()}); err != nil {
		w.t.Fatal(err)
	}
}

// units returns the write units so far.
func (w *world) units() float64 { return w.store.Usage().WriteUnits }

// events returns the messages of a service's events, oldest first.
func (w *world) events(name string) []string {
	w.t.Helper()
	var out []string
	for _, e := range w.service(name).EventLog {
		out = append(out, e.Message)
	}
	slices.Reverse(out)
	return out
}

func (w *world) sweep() {
	w.t.Helper()
	if err := w.observer.RunSchedule(ctx, "sweep"); err != nil {
		w.t.Fatal(err)
	}
}

// minute runs dispatch's schedule.
func (w *world) minute() {
	w.t.Helper()
	if err := w.dispatch.RunSchedule(ctx, "due"); err != nil {
		w.t.Fatal(err)
	}
	w.pump()
}

// placed counts the tasks that hold capacity, by instance.
func placed(tasks []*cluster.Task) map[string]int {
	out := map[string]int{}
	for _, t := range tasks {
		if t.HoldsCapacity() {
			out[t.Instance]++
		}
	}
	return out
}

func wantCount[T any](t testing.TB, what string, got []T, want int) {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%d %s, want %d: %s", len(got), what, want, show(got))
	}
}

func want[T comparable](t testing.TB, what string, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Fatalf("%s: got %v, want %v", what, got, wanted)
	}
}

// wantCode checks the code of an error, and that its message contains the text.
func wantCode(t testing.TB, err error, code cluster.Code, text string) {
	t.Helper()
	if err == nil || cluster.ErrorCode(err) != code || !strings.Contains(err.Error(), text) {
		t.Fatalf("got error %v, want %s with %q", err, code, text)
	}
}

func wantEvent(t testing.TB, events []string, text string) {
	t.Helper()
	if !slices.ContainsFunc(events, func(m string) bool { return strings.Contains(m, text) }) {
		t.Fatalf("no event says %q: %q", text, events)
	}
}

func show(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	return cmp.Or(string(data), fmt.Sprint(err))
}

var errStore = errors.New("the store has no time")
