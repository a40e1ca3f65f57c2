package installation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"time"

	"berth"
	"berth/cmd/berth/chaos"
	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/datafile"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/handler/dispatch"
	"berth/shared/handler/healthcheck"
	"berth/shared/handler/managedscaling"
	"berth/shared/handler/nodegroupupgrade"
	"berth/shared/handler/placement"
	"berth/shared/handler/taskstatechange"
	"berth/shared/handler/throttling"
	"berth/shared/sim"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/sim/iam"
	"berth/shared/state"
	"berth/shared/wire"
	"berth/shared/wire/access"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/stsapi"
	"berth/shared/wire/transport"
)

// FleetSource is the source of the simulated AWS's events. Only AWS may send events with a source
// that begins with aws.
const FleetSource = "berth.fleet"

// Options say what to put together. The zero value of each field means its default.
type Options struct {
	Loop    *embedded.Loop // nil for one in real time
	Data    string         // folder of the state and the fleet; if empty, both are in memory
	Account cluster.Account
	Seed    uint64
	// Settings are [handler.DefaultSettings] if nil. Parameters override those of template.yaml.
	Settings   *handler.Settings
	Parameters map[string]string
	AWS        sim.Options // Clock, Emit, Path, Unwritable, Source and Account are set here
	Log        *slog.Logger

	// Verifier checks signatures, and Access says who may call what. Without them everyone who
	// reaches the API may call everything.
	Verifier *access.Verifier
	Access   *access.Policy
	// Audit gets a line for each change through the API; nil stands for Log.
	Audit *slog.Logger

	// Unwritable is called with the error when writing a file of the data folder fails, and with
	// nil when it succeeds again. It may be nil, and must not call the installation.
	Unwritable func(err error)

	// NewID returns request ids. They are random if it is nil.
	NewID func() string
	// WrapState, WrapECS and WrapClock replace a port of a function, given its name or "api".
	WrapState func(function string, s state.Store) state.Store
	WrapECS   func(function string, e handler.ECS) handler.ECS
	WrapClock func(function string, c handler.Clock) handler.Clock
	// WrapGroups does the same for the ports to Auto Scaling groups and their instances.
	WrapGroups func(function string, g Groups) Groups
	// WrapRecords replaces what handles the records of a function's stream.
	WrapRecords func(function string, handle RecordsHandler) RecordsHandler
	// Watch sees the records of every commit before any function does.
	Watch func([]state.Record)
	// Runtime is passed on to the runtime; only Execute, Parallel and Faults are read.
	Runtime embedded.RuntimeOptions
}

// Groups is all that functions call about Auto Scaling groups, their launch templates and their
// instances.
type Groups interface {
	handler.AutoScaling
	handler.GroupUpdates
	handler.LaunchTemplates
	handler.InstanceTypes
	handler.Hosts
	handler.Metrics
}

// groupPorts are the services of the simulated AWS that together are [Groups].
type groupPorts struct {
	*autoscaling.Groups
	*ec2.Templates
	handler.Metrics
	handler.Hosts
}

// groupMaker are the services of the simulated AWS that make node groups.
type groupMaker struct {
	autoscaling.Maker
	*ec2.Templates
	*iam.Profiles
}

// Name is an embedded installation's name: the value of the tag [handler.OwnerTag] on the Auto
// Scaling groups that it may change.
const Name = "berth"

// Installation is an embedded Berth. Its parts may be used directly, from the loop's goroutine or
// while the loop does not run.
type Installation struct {
	Loop    *embedded.Loop
	Store   *embedded.Store
	AWS     *sim.AWS
	Runtime *embedded.Runtime
	API     *api.Handler
	// Server serves Berth's API, the EKS API and the simulated AWS on one address.
	Server http.Handler

	options Options
}

// The files of a data folder.
const stateFile, fleetFile = "state.db", "fleet.db"

// consumers are the functions that read the stream, as template.yaml names them.
var consumers = []string{"placement", "dispatch"}

// Open puts an installation together, with the state and the fleet that the data folder has.
// Nothing runs until the loop does, and no function is connected until [Installation.Start].
func Open(o Options) (*Installation, error) {
	o = o.withDefaults()
	i := &Installation{Loop: o.Loop, options: o}
	if o.Data != "" {
		if err := datafile.Pair(o.filePath(stateFile), o.filePath(fleetFile)); err != nil {
			return nil, err
		}
	}
	var err error
	if i.Store, err = embedded.OpenStore(embedded.StoreOptions{Path: o.filePath(stateFile),
		Consumers: consumers, Unwritable: o.Unwritable}); err != nil {
		return nil, err
	}
	wiring, err := embedded.LoadTemplate([]byte(berth.Template), o.Parameters)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading template.yaml: %w", err), i.Close())
	}
	if err := i.openAWS(); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	if err := i.wireFunctions(wiring); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// withDefaults fills in the defaults. The fleet's events have a source of their own, so the
// parameters of template.yaml that list accepted sources must name it.
func (o Options) withDefaults() Options {
	if o.Loop == nil {
		o.Loop = embedded.NewRealLoop()
	}
	if o.Settings == nil {
		s := handler.DefaultSettings()
		o.Settings = &s
	}
	if o.Settings.Installation == "" {
		named := *o.Settings
		named.Installation = Name
		o.Settings = &named
	}
	o.Account.ID = cmp.Or(o.Account.ID, "123456789012")
	o.Account.Region = cmp.Or(o.Account.Region, "us-east-1")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	parameters := map[string]string{
		"EventSources": FleetSource, "AlarmSources": FleetSource, "ScalingSources": FleetSource,
		"AWS::AccountId": o.Account.ID, "AWS::Region": o.Account.Region,
	}
	maps.Copy(parameters, o.Parameters)
	o.Parameters = parameters
	return o
}

// filePath returns the path of a file in the data folder, or nothing if there is no folder.
func (o Options) filePath(name string) string {
	if o.Data == "" {
		return ""
	}
	return filepath.Join(o.Data, name)
}

// loopClock makes the loop the clock of the simulated AWS.
type loopClock struct{ *embedded.Loop }

func (c loopClock) After(d time.Duration, f func()) { c.Loop.After(d, f) }

// openAWS opens the simulated AWS on the loop. Its events go to the runtime, which routes them as
// EventBridge does.
func (i *Installation) openAWS() error {
	o := i.options.AWS
	o.Clock = loopClock{i.Loop}
	o.Source, o.AlarmSource, o.ScalingSource, o.Account, o.Seed = FleetSource, FleetSource, FleetSource,
		i.options.Account, i.options.Seed
	o.Path, o.Unwritable = i.options.filePath(fleetFile), i.options.Unwritable
	o.Emit = func(event []byte) {
		if err := i.Runtime.PutEvent(event); err != nil {
			i.options.Log.Error("queueing an event of the fleet", "error", err)
		}
	}
	var err error
	i.AWS, err = sim.Open(o)
	return err
}

// wrapPort returns a function's port as the option wraps it, or as it is without one.
func wrapPort[P any](wrap func(function string, port P) P, function string, port P) P {
	if wrap == nil {
		return port
	}
	return wrap(function, port)
}

func (i *Installation) stateFor(function string) state.Store {
	return wrapPort[state.Store](i.options.WrapState, function, i.Store)
}

func (i *Installation) ecsFor(function string) handler.ECS {
	return wrapPort[handler.ECS](i.options.WrapECS, function, i.AWS.ECS)
}

func (i *Installation) groupsFor(function string) Groups {
	return wrapPort[Groups](i.options.WrapGroups, function,
		groupPorts{i.AWS.Groups, i.AWS.Templates, i.AWS.CloudWatch, i.AWS.ECS})
}

// ownedGroups lets a function change only the groups that carry this installation's tag.
func (i *Installation) ownedGroups(groups Groups) *handler.OwnedGroups {
	return &handler.OwnedGroups{AutoScaling: groups, Updates: groups, Installation: i.options.Settings.Installation}
}

func (i *Installation) clockFor(function string) handler.Clock {
	return wrapPort[handler.Clock](i.options.WrapClock, function, embedded.CallbackClock{Loop: i.Loop})
}

// wireFunctions makes the runtime with the functions, the API, and the server in front of both.
func (i *Installation) wireFunctions(wiring *embedded.Wiring) error {
	o := i.options.Runtime
	o.Functions = i.functionFactories()
	o.Stream = watched{i.Store, i.options.Watch}
	o.Log = i.options.Log
	var err error
	if i.Runtime, err = embedded.NewRuntime(i.Loop, wiring, o); err != nil {
		return err
	}
	i.API = api.New(api.Dependencies{
		State: i.stateFor("api"), ECS: i.ecsFor("api"), Settings: *i.options.Settings,
		Clock: wrapPort[handler.Clock](i.options.WrapClock, "api", i.Loop), NewID: i.options.NewID, Log: i.options.Log,
	})
	server := i.AWS.ServeProtocols(wire.NewServer(wire.ServerOptions{
		Options: ecsapi.Options{
			Account: i.options.Account, ECS: forwarder{i.AWS.ECS.Endpoint()},
			Logger: i.loggerFor("api"), Networks: ec2.Networks{}, Access: i.options.Access,
			Resources: ecsapi.Resources{
				Clusters: i.API.Clusters, Services: i.API.Services, Deployments: i.API.Deployments,
				TaskSets: i.API.TaskSets, Tasks: i.API.Tasks,
				TaskProtections: i.API.TaskProtections,
				Tags:            i.API.Tags, CapacityProviders: i.API.CapacityProviders,
				ClusterProviders: i.API.ClusterProviders, AccountSettings: i.API.AccountSettings,
			},
		},
		Own: berthapi.Resources{Configurations: i.API.Configurations, Balances: i.API.Clusters,
			Services: i.API.Services, Loads: i.API.Loads, Rows: i.API.Rows, DeadLetters: i.DeadLetters},
		NodeGroups: i.API.NodeGroups,
		// No web page may call, and without credentials everyone who runs programs on this machine.
		Loopback: true, Audit: i.options.Audit, Bounded: true,
	}))
	guard := transport.Guard{Loopback: true, Access: i.options.Access,
		Audit: cmp.Or(i.options.Audit, i.options.Log), Log: i.loggerFor("api")}
	server = i.serveBackup(guard, server)
	server = chaos.Handler(i.AWS, guardFleet(guard), stsapi.Handler(i.identifyCaller, server))
	if v := i.options.Verifier; v != nil {
		server = v.Handler(i.options.Account.Region, server, func(r *http.Request, arn string) *http.Request {
			return r.WithContext(transport.WithPrincipal(r.Context(), arn))
		}, wire.WriteRefusal)
	}
	i.Server = server
	return nil
}

// identifyCaller returns the principal that signed the request, or the root user where signatures
// are not checked.
func (i *Installation) identifyCaller(ctx context.Context) (stsapi.Identity, error) {
	return stsapi.IdentityOf(i.options.Account.ID, transport.Principal(ctx)), nil
}

// guardFleet returns what refuses callers who may not change services either. As with those, each change and
// each refusal is logged.
func guardFleet(guard transport.Guard) chaos.Guard {
	return func(r *http.Request, subject string, call func() (succeeded bool)) error {
		if r.Method == http.MethodGet {
			call()
			return nil
		}
		const operation = "BreakFleet"
		return guard.Run(r.Context(), operation, func() error {
			if call() {
				guard.LogChange(r.Context(), operation, func() string { return subject })
			}
			return nil
		})
	}
}

// functionFactories returns how to make an environment of each function. Schedules have ports of
// their own, named "schedule" and "sweep", so that their cost can be measured apart.
func (i *Installation) functionFactories() map[string]func(environment string) embedded.Function {
	return map[string]func(string) embedded.Function{
		"placement": func(environment string) embedded.Function {
			h := &placement.Handler{
				State: i.stateFor("placement"), Clock: i.clockFor("placement"), Wake: i.Runtime.Queue("WakeQueue"),
				Settings: *i.options.Settings, Log: i.loggerFor("placement"), Environment: environment,
			}
			// A simulator that suspends a decision lets calls win races meanwhile.
			if i.options.Runtime.Execute == nil {
				h.HoldCallers = i.API.HoldCallers
			}
			return embedded.Function{Records: i.recordsFor("placement", h.HandleRecords)}
		},
		"dispatch": func(string) embedded.Function {
			h := i.dispatchHandler("dispatch")
			return embedded.Function{
				Records: i.recordsFor("dispatch", h.HandleRecords), Messages: h.HandleMessages,
				Schedule: i.dispatchHandler("schedule").RunSchedule,
			}
		},
		"task-state-change": func(string) embedded.Function {
			h := i.taskStateChange("task-state-change")
			return embedded.Function{Messages: h.HandleMessages, Schedule: i.taskStateChange("sweep").RunSchedule}
		},
		"health-check": func(string) embedded.Function {
			const name = "health-check"
			h := &healthcheck.Handler{
				State: i.stateFor(name), ECS: i.ecsFor(name), LoadBalancers: i.AWS.LoadBalancers(),
				Registries: i.AWS.Registries, Alarms: i.AWS.CloudWatch, Clock: i.clockFor(name),
				Settings: *i.options.Settings, Log: i.loggerFor(name),
				Decoder:  awsevent.Decoder{AlarmSources: []string{FleetSource}},
				Parallel: i.options.Runtime.Parallel,
			}
			return embedded.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}
		},
		"managed-scaling": func(string) embedded.Function {
			const name = "managed-scaling"
			groups := i.groupsFor(name)
			h := &managedscaling.Handler{
				State: i.stateFor(name), ECS: i.ecsFor(name), Hosts: groups, Groups: groups, Metrics: groups,
				Types: groups,
				Clock: i.clockFor(name), Settings: *i.options.Settings, Log: i.loggerFor(name),
				Decoder: awsevent.Decoder{AlarmSources: []string{FleetSource}, ScalingSources: []string{FleetSource}},
			}
			return embedded.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}
		},
		"node-group-upgrade": func(string) embedded.Function {
			const name = "node-group-upgrade"
			groups := i.groupsFor(name)
			h := &nodegroupupgrade.Handler{
				State: i.stateFor(name), ECS: i.ecsFor(name), Hosts: groups, Auto: groups, Updates: groups,
				Templates: groups, Parameters: i.AWS.Templates, Clock: i.clockFor(name),
				Maker:    groupMaker{autoscaling.Maker{Groups: i.AWS.Groups}, i.AWS.Templates, i.AWS.Profiles},
				Settings: *i.options.Settings, Log: i.loggerFor(name), Decoder: i.eventDecoder(),
			}
			return embedded.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}
		},
		"throttling": func(string) embedded.Function {
			h := &throttling.Handler{
				State: i.stateFor("throttling"), Clock: i.clockFor("throttling"), Settings: *i.options.Settings,
				Log: i.loggerFor("throttling"), Decoder: i.eventDecoder(),
			}
			return embedded.Function{Messages: h.HandleMessages}
		},
	}
}

// loggerFor returns the log with the function's name in each line.
func (i *Installation) loggerFor(function string) *slog.Logger {
	return i.options.Log.With("function", function)
}

// eventDecoder accepts events of the simulated AWS, and of this account and Region only.
func (i *Installation) eventDecoder() awsevent.Decoder {
	simulated := []string{FleetSource}
	return awsevent.Decoder{
		Account: i.options.Account.ID, Region: i.options.Account.Region,
		ECSSources: simulated, AlarmSources: simulated, ScalingSources: simulated,
	}
}

// dispatchHandler makes the handler of dispatch with the ports of this name.
func (i *Installation) dispatchHandler(name string) *dispatch.Handler {
	return &dispatch.Handler{
		State: i.stateFor(name), ECS: i.ecsFor(name), LoadBalancers: i.AWS.LoadBalancers(),
		Registries: i.AWS.Registries, Groups: i.ownedGroups(i.groupsFor(name)),
		Scaling: i.Runtime.Queue("ManagedScalingQueue"), Upgrades: i.Runtime.Queue("NodeGroupUpgradeQueue"),
		Account: i.options.Account, Clock: i.clockFor(name),
		Settings: *i.options.Settings, Log: i.loggerFor(name), Parallel: i.options.Runtime.Parallel,
	}
}

// taskStateChange makes the handler of task-state-change with the ports of this name.
func (i *Installation) taskStateChange(name string) *taskstatechange.Handler {
	return &taskstatechange.Handler{
		State: i.stateFor(name), ECS: i.ecsFor(name), Clock: i.clockFor(name), Settings: *i.options.Settings,
		Log: i.loggerFor(name), Decoder: i.eventDecoder(), Health: i.Runtime.Queue("HealthCheckQueue"),
	}
}

// Start connects the functions to their sources. Stream records that an earlier process left are
// delivered again. If that process was killed, its queues are lost: a sweep finds what their
// messages reported, and the wake-ups are sent again.
func (i *Installation) Start(ctx context.Context) error {
	i.Runtime.Start()
	if err := i.taskStateChange("sweep").RunSchedule(ctx, "sweep"); err != nil {
		return err
	}
	return i.resendWakeUps(ctx)
}

// resendWakeUps sends a wake-up for each due row, as placement did when the row was written.
// Without it dispatch would look at them only on its next schedule, a minute later.
func (i *Installation) resendWakeUps(ctx context.Context) error {
	entries, err := i.Store.List(ctx, state.Prefix(state.Directory, state.PrefixEntry))
	if err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	now, wake := i.Loop.Now(), i.Runtime.Queue("WakeQueue")
	for _, row := range entries {
		e, ok := row.(*state.Entry)
		if !ok {
			continue
		}
		rows, err := i.Store.List(ctx, state.DueBy(e.Name, now.Add(handler.MaxWake-time.Second)))
		if err != nil {
			return fmt.Errorf("listing the due rows of cluster %s: %w", e.Name, err)
		}
		body, err := json.Marshal(handler.WakeUp{Cluster: e.Name})
		if err != nil {
			return err
		}
		sent := map[time.Duration]bool{}
		for _, row := range rows {
			due, ok := row.(*state.Due)
			if !ok {
				continue
			}
			wait := (max(0, due.At.Sub(now)) + time.Second - 1).Truncate(time.Second)
			if sent[wait] {
				continue
			}
			sent[wait] = true
			if err := wake.Send(ctx, body, wait); err != nil {
				return fmt.Errorf("waking dispatch for %s: %w", state.KeyOf(due).Sort, err)
			}
		}
	}
	return nil
}

// Close closes the files. The loop must have stopped.
func (i *Installation) Close() error {
	var failed []error
	if i.AWS != nil {
		failed = append(failed, i.AWS.Close())
	}
	if i.Store != nil {
		failed = append(failed, i.Store.Close())
	}
	return errors.Join(failed...)
}

// EnsureCluster creates the cluster unless it exists, and adds instances of the machine until it
// has n. It returns how many it added.
func (i *Installation) EnsureCluster(ctx context.Context, name string, n int, m ec2.Machine) (added int, err error) {
	if added, err = i.AWS.EnsureCluster(ctx, name, n, m); err != nil {
		return 0, err
	}
	return added, i.API.Clusters.ClusterCreated(ctx, name)
}
