package managedscaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Handler is the function that sizes the Auto Scaling groups of capacity providers (C1–C8), each minute and when one
// of its alarms fires. What package scaling decides it remembers first, then carries out; whatever fails is decided anew
// the next minute.
type Handler struct {
	State    state.Store
	ECS      handler.ECS
	Hosts    handler.Hosts
	Groups   handler.AutoScaling
	Metrics  handler.Metrics
	Clock    handler.Clock
	Settings handler.Settings
	Decoder  awsevent.Decoder
	Log      *slog.Logger
	// Figures gather what operators watch; nil gathers nothing.
	Figures *handler.Figures

	rotation handler.Rotation
}

// Schedule looks at the capacity providers, and then at every cluster that has some, as far as its time goes.
func (h *Handler) Schedule(ctx context.Context, name string) error {
	if name != "scaling" {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected scaling", name)}
	}
	err := h.lookAtProviders(ctx)
	return errors.Join(err, h.rotation.ForEachCluster(ctx, h.State, h.Clock.Now, h.Log, func(name string) error { return h.cluster(ctx, name) }))
}

// Messages handles events of alarms and of instances whose termination the lifecycle hook holds up, and returns the ids of
// those to deliver again. They say only that a cluster is to be looked at before the minute is over.
func (h *Handler) Messages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Figures.Add(handler.EventsHandled, len(messages))
	named := map[string]bool{} // alarms that fired, groups that terminate
	var taken []string
	for _, m := range messages {
		name, err := h.about(m.Body)
		if err != nil {
			h.Figures.AddDropped(taskstatechange.DropKind(err.Reason))
			handler.Logger(h.Log).Warn("dropped event", "message", m.ID, "reason", err.Reason)
			continue
		}
		named[name] = true
		taken = append(taken, m.ID)
	}
	if len(named) == 0 {
		return nil
	}
	err := state.ForEachCluster(ctx, h.State, func(name string) error {
		concerned, err := h.concerned(ctx, name, named)
		if err != nil || !concerned {
			return err
		}
		return h.cluster(ctx, name)
	})
	if err != nil {
		handler.Logger(h.Log).Error("scaling on an event", "error", err)
		return taken
	}
	return nil
}

// about is the alarm or the group that an event names.
func (h *Handler) about(body []byte) (string, *cluster.Drop) {
	e, err := h.Decoder.Decode(body)
	var drop *cluster.Drop
	switch {
	case errors.As(err, &drop):
		return "", drop
	case err != nil:
		return "", &cluster.Drop{Reason: err.Error()}
	}
	switch d := e.Detail.(type) {
	case *awsevent.Alarm:
		if strings.HasPrefix(d.Name, cluster.AlarmPrefix) {
			return d.Name, nil
		}
	case *awsevent.Lifecycle:
		if d.Hook == cluster.DrainingHook && d.Terminating() {
			return d.Group, nil
		}
	}
	return "", &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
}

// concerned reports whether the cluster has a capacity provider with one of these alarms or groups.
func (h *Handler) concerned(ctx context.Context, clusterName string, named map[string]bool) (bool, error) {
	of, err := handler.FindClusterProviders(ctx, h.State, clusterName)
	if err != nil {
		return false, err
	}
	for _, name := range of.Providers {
		if low, high := cluster.ScalingAlarms(clusterName, name); named[low] || named[high] {
			return true, nil
		}
		p, err := handler.FindProvider(ctx, h.State, name)
		if err != nil || p != nil && named[p.Group] {
			return err == nil, err
		}
	}
	return false, nil
}

// cluster scales all capacity providers of a cluster. One that has none costs a read of one row.
func (h *Handler) cluster(ctx context.Context, name string) error {
	of, err := handler.FindClusterProviders(ctx, h.State, name)
	if err != nil || of.Rev == 0 || len(of.Providers)+len(of.Leaving) == 0 {
		return err
	}
	var failed, unattached []error
	why := map[string]string{} // providers are not attached
	waits := false             // for a look at a group, or for another environment that does the same
	for _, p := range of.Leaving {
		if err := cluster.Wrap(h.detach(ctx, of, p), "taking capacity provider %s from the cluster", p); h.lostTo(name, p, err) {
			waits = true
		} else if err != nil {
			unattached, why[p] = append(unattached, err), err.Error()
		}
	}
	if len(of.Providers) > 0 {
		r := &scalingRound{Handler: h, ctx: ctx, of: of}
		if err := r.read(); err != nil {
			return errors.Join(err, h.unreadable(ctx, of, err))
		}
		for _, p := range of.Providers {
			if row := r.rows[p]; row != nil && row.Look {
				waits = true
				continue
			}
			var reason notAttached
			switch err := cluster.Wrap(r.provider(p), "capacity provider %s", p); {
			case h.lostTo(name, p, err):
				waits = true
			case errors.As(err, &reason):
				unattached, why[p] = append(unattached, err), reason.Error()
			default:
				failed = append(failed, err)
			}
		}
		if len(r.points) > 0 {
			failed = append(failed, cluster.Wrap(h.Metrics.PutReservation(ctx, r.points), "publishing %s", cluster.ReservationMetric))
		}
	}
	err = errors.Join(append(failed, unattached...)...)
	if waits {
		return err
	}
	return errors.Join(err, h.conclude(ctx, of, why))
}

// lostTo reports whether another environment sees to the provider at the same time: it acts, and concludes.
func (h *Handler) lostTo(clusterName, provider string, err error) bool {
	var lost *state.Conflict
	if !errors.As(err, &lost) {
		return false
	}
	handler.Logger(h.Log).Info("another environment scales it at the same time, and goes on", "cluster", clusterName, "provider", provider)
	return true
}

// notAttached is the failure to make or take back what belongs to a provider: users see it in the attachments' status.
type notAttached struct{ error }

func (n notAttached) Unwrap() error { return n.error }

func attaching(err error) error {
	if err == nil {
		return nil
	}
	return notAttached{err}
}

// conclude says what has become of the attachments, if that was asked or has changed. What failed otherwise is tried again
// the next minute, and no matter of theirs. Failed are the reasons by provider.
func (h *Handler) conclude(ctx context.Context, of *cluster.ClusterProviders, failed map[string]string) error {
	next := *of
	if next.Status, next.Failed = cluster.AttachmentsFailed, failed; len(failed) == 0 {
		next.Status, next.Leaving = cluster.AttachmentsComplete, nil
	}
	if next.Status == of.Status && maps.Equal(next.Failed, of.Failed) && len(next.Leaving) == len(of.Leaving) {
		return nil
	}
	next.Rev++
	_, err := h.State.Write(ctx, state.Write{Put: &next})
	return cluster.Wrap(state.IgnoreConflict(err), "writing the attachments' status") // who has changed them has them looked at again
}

// scalingRound is one look at the capacity providers of a cluster.
type scalingRound struct {
	*Handler
	ctx    context.Context
	of     *cluster.ClusterProviders
	snap   *snapshot.Snapshot
	specs  *decide.Specs
	groups map[string]*cluster.AutoScalingGroup
	rows   map[string]*cluster.CapacityProvider
	busy   map[string]*cluster.Update // of Auto Scaling groups whose nodes are being upgraded
	points []cluster.Datapoint
	// waiting are the tasks that wait, by capacity provider; daemons what DAEMON services need.
	waiting map[string][]scaling.Waiting
	daemons []*placement.Spec
}

// read reads the providers, the groups, and the cluster, this last: what has changed meanwhile is then known.
func (r *scalingRound) read() error {
	r.rows, r.groups = map[string]*cluster.CapacityProvider{}, map[string]*cluster.AutoScalingGroup{}
	var names []string
	for _, name := range r.of.Providers {
		p, err := handler.FindProvider(r.ctx, r.State, name)
		if err != nil {
			return err
		}
		if p != nil {
			r.rows[name] = p
			names = append(names, p.Group)
		}
	}
	got, err := r.Groups.DescribeGroups(r.ctx, names)
	if err != nil {
		return fmt.Errorf("describing Auto Scaling groups: %w", err)
	}
	for _, g := range got {
		r.groups[g.Name] = g
	}
	if r.snap, err = snapshot.Load(r.ctx, r.State, r.of.Cluster); err != nil {
		return err
	}
	r.specs = decide.NewSpecs(r.snap)
	r.waiting, r.daemons = r.waitingOf(), r.daemonsOf()
	return r.upgrading()
}

// upgrading finds out which groups' nodes are being upgraded: nothing is taken from these, and their maximum is not theirs.
func (r *scalingRound) upgrading() error {
	rows, err := r.State.List(r.ctx, state.Prefix(r.of.Cluster, state.PrefixNodeGroup))
	if err != nil {
		return fmt.Errorf("listing node groups: %w", err)
	}
	r.busy = map[string]*cluster.Update{}
	for _, row := range rows {
		g, ok := row.(*cluster.NodeGroup)
		if !ok || !g.Upgrading() {
			continue
		}
		row, err := r.State.Get(r.ctx, state.UpdateKey(r.of.Cluster, g.Name, g.Update))
		if err != nil {
			return fmt.Errorf("reading update %s: %w", g.Update, err)
		}
		u, ok := row.(*cluster.Update)
		switch {
		case !ok || u == nil:
			r.busy[g.AutoScalingGroup] = &cluster.Update{}
		case !u.Ended(): // of one that has, the node group is about to be told
			r.busy[g.AutoScalingGroup] = u
		}
	}
	return nil
}

// provider attaches, decides, remembers and acts.
func (r *scalingRound) provider(name string) error {
	p := r.rows[name]
	if p == nil {
		return attaching(errors.New("it does not exist"))
	}
	if p.Unfit != "" {
		return attaching(errors.New(p.Unfit))
	}
	g := r.groups[p.Group]
	if g == nil {
		return attaching(cmp.Or(r.groupless(p), fmt.Errorf("there is no Auto Scaling group %s", p.Group)))
	}
	old, err := r.history(name)
	if err != nil {
		return attaching(err)
	}
	attached, err := r.attach(p, old)
	if err != nil {
		return attaching(err)
	}
	claimed := r.claimInstances(p, g)
	if err := r.seeDrains(old.Drains); err != nil {
		return err
	}
	d, err := r.decide(p, g, old)
	if err != nil {
		return err
	}
	next := d.History
	next.Attached, next.Beats = attached, r.beats(p, g, old.Beats)
	var news []scaling.Event
	next.Told, news = unheard(old.Told, d.Events)
	// When the group was scaled or instances were replaced is remembered before that is done, and stays so where it then is not:
	// a process that dies in between must not have the next scale in too soon, or an update of the nodes take back what is about to
	// come. What is lost is a wait. That it was done is told only afterwards.
	if err := r.remember(old, &next); err != nil {
		return err
	}
	if d.Published {
		r.points = append(r.points, cluster.Datapoint{
			Namespace: r.Settings.ScalingNamespace, Cluster: r.of.Cluster, Provider: name, Percent: d.Reservation, At: r.Clock.Now(),
		})
	}
	// What is lost in a race from here on is made up for in the next minute, and is no reason to be silent about the rest.
	sized, acted := r.act(p, g, &d)
	if !sized {
		news = slices.DeleteFunc(news, func(e scaling.Event) bool { return e.Done })
	}
	return errors.Join(state.IgnoreConflict(claimed), state.IgnoreConflict(acted), r.drainTerminating(p, g, old.Beats, next.Beats), state.IgnoreConflict(r.tell(p, news)))
}
