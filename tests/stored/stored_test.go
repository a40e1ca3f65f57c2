package stored

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/state"
)

const root = "../.."

// addedFields are fields for which a folder has no value, because its version did not have them: by
// folder, as [unsetFields] names them.
var addedFields = map[string][]string{
	"3": slices.Concat(problemTimes, scaleOuts, untagged, drainedNodes, deploymentFailures(),
		deploymentConfigurations(), deregistrations, changeSets(), failedConfigs),
	"2": slices.Concat(taskSets(), immediateScaleOut, launchTypes(), askedChanges, rebalancing(), loadScaling(),
		volumes(), madeGroups, enoughHealthy, sharedCalls, taints(), affinity, holds, unknownNames,
		applications(), drainingSince, problemTimes, dueWritten, consolidationProgress, inbox, scaleOuts,
		untagged, drainedNodes, deploymentFailures(), deploymentConfigurations(), deregistrations, changeSets(),
		failedConfigs),
	"1": append(slices.Concat(accountSettings, definitionTags, taskSets(), immediateScaleOut, launchTypes(),
		askedChanges, rebalancing(), loadScaling(), volumes(), madeGroups, enoughHealthy, sharedCalls, taints(),
		affinity, holds, unknownNames, applications(), drainingSince, problemTimes, dueWritten, consolidationProgress,
		inbox, scaleOuts, untagged, drainedNodes, deploymentFailures(), deploymentConfigurations(), deregistrations,
		changeSets(), failedConfigs),
		"load# *state.PendingLoad.Times", "load# *state.PendingLoad.Times{}",
		"reported# *state.LoadTimes", "reported# *state.LoadTimes.Head", "reported# *state.LoadTimes.Head.Cluster",
		"reported# *state.LoadTimes.Head.Rev", "reported# *state.LoadTimes.Head.Stamp",
		"reported# *state.LoadTimes.Head.Expires", "reported# *state.LoadTimes.Owner", "reported# *state.LoadTimes.ID",
		"reported# *state.LoadTimes.Times", "reported# *state.LoadTimes.Times{}",
	),
}

// failedConfigs is the id of an update of sizes or labels that failed, which the third version did not keep.
var failedConfigs = []string{"nodegroup# *cluster.NodeGroup.FailedConfigUpdate"}

// changeSets are the fields of change sets, which the third version did not have.
func changeSets() []string {
	kind := "changes# *state.ChangeSet"
	fields := []string{kind}
	for _, name := range []string{
		"Head", "Head.Cluster", "Head.Rev", "Head.Stamp", "Head.Expires", "Batch", "Version",
		"ClusterCreatedAt", "At", "Packed", "Omitted",
	} {
		fields = append(fields, kind+"."+name)
	}
	return fields
}

// beforeSpread are the folders of versions that kept tasks and aliases under the cluster's own
// partition key.
var beforeSpread = []string{"1", "2"}

// immediateScaleOut are the fields of immediate scale-outs, which the second version did not have.
var immediateScaleOut = []string{
	"provider# *cluster.CapacityProvider.Scaling.Immediate",
	"provider# *cluster.CapacityProvider.PreviousSettings.Scaling.Immediate",
	"scaling# *cluster.ScalingHistory.LookAgainAt",
}

// inbox are the fields of inbox rows, which the first two versions did not have.
var inbox = []string{
	"inbox# *state.Inbox", "inbox# *state.Inbox.Head", "inbox# *state.Inbox.Head.Cluster",
	"inbox# *state.Inbox.Head.Rev", "inbox# *state.Inbox.Head.Stamp", "inbox# *state.Inbox.Head.Expires",
	"inbox# *state.Inbox.ID", "inbox# *state.Inbox.Packed", "inbox# *state.Inbox.Unread",
	"inbox# *state.Inbox.Unread[]", "inbox# *state.Inbox.Unread[].Owner", "inbox# *state.Inbox.Unread[].ID",
}

// scaleOuts count how often managed scaling has enlarged a group, which the first three versions did
// not write down.
var scaleOuts = []string{
	"scaling# *cluster.ScalingHistory.ScaleOuts", "update# *cluster.Update.UpdateSpec.LeftScaleOuts",
	"update# *cluster.Update.SurplusRemoval.FinalScaleOuts",
}

// drainedNodes are the nodes that an update has drained, which the first three versions did not write
// down.
var drainedNodes = []string{
	"update# *cluster.Update.NodeReplacement.DrainedNodes", "update# *cluster.Update.NodeReplacement.DrainedNodes[]",
}

// untagged is the installation that a provider's group should name in a tag, which the first three
// versions had only within a text.
var untagged = []string{"provider# *cluster.CapacityProvider.Untagged"}

// enoughHealthy is whether a service has enough healthy tasks, which the first two versions did not
// write down.
var enoughHealthy = []string{"service# *cluster.Service.ServiceStatus.EnoughHealthy"}

// holds is until when callers leave the placement version to placement, which the first two
// versions did not have.
var holds = []string{"meta *state.Meta.HeldUntil"}

// drainingSince is since when an instance drains, which the first two versions did not write down.
var drainingSince = []string{"instance# *cluster.Instance.DrainingAt"}

// problemTimes are since when users are told that something lasts, which the first three versions did
// not write down.
var problemTimes = []string{"instance# *cluster.Instance.AttributesChangedAt",
	"service# *cluster.Service.ServiceTimes", "service# *cluster.Service.ServiceTimes.UnhealthySince",
	"service# *cluster.Service.ServiceTimes.RulesChangedAt", "provider# *cluster.CapacityProvider.FailedAt",
	"scaling# *cluster.ScalingHistory.Attachment.MissingSince"}

// deploymentFailures returns what is recorded of a deployment that fails, which the first three versions
// had only in the rows of tasks and alarms, and of one that finds no room.
func deploymentFailures() []string {
	fields := []string{"alarms# *cluster.AlarmWatch.Since"}
	for _, of := range []string{"service# *cluster.Service.ServiceStatus", "deployment# *cluster.ServiceDeployment"} {
		for _, field := range []string{"TriggeredSince", "TargetDefinition", "LastFailure"} {
			fields = append(fields, of+".Release.ReleaseResult."+field)
		}
	}
	return append(fields, "service# *cluster.Service.ServiceStatus.Blocked.Least")
}

// deploymentConfigurations returns the configurations of deployments that have ended, which the first three
// versions did not keep.
func deploymentConfigurations() []string {
	const of = "deployment# *cluster.ServiceDeployment.Configuration"
	fields := []string{of}
	for _, field := range []string{
		"MinHealthy", "MaxPercent", "Breaker", "Breaker.Enable", "Breaker.Rollback", "Breaker.Cumulative",
		"Breaker.Type", "Breaker.Value", "Alarms", "Alarms.Names", "Alarms.Names[]", "Alarms.Enable", "Alarms.Rollback",
		"Early", "Early.Enable", "Early.Percent", "Early.Deferred",
	} {
		fields = append(fields, of+"."+field)
	}
	return fields
}

// deregistrations are the fields of task definitions whose deregistration is deferred, which the first
// three versions passed on to ECS at once.
var deregistrations = []string{
	"deregistration# *state.Deregistration", "deregistration# *state.Deregistration.Head",
	"deregistration# *state.Deregistration.Head.Cluster", "deregistration# *state.Deregistration.Head.Rev",
	"deregistration# *state.Deregistration.Head.Stamp", "deregistration# *state.Deregistration.Head.Expires",
	"deregistration# *state.Deregistration.Family", "deregistration# *state.Deregistration.Revision",
	"deregistration# *state.Deregistration.At", "deregistration# *state.Deregistration.DeleteAt",
	"deregistration# *state.Deregistration.Unused", "deregistration# *state.Deregistration.Unused[]",
	"deregistration# *state.Deregistration.EndedAt",
}

// consolidationProgress is whether consolidation has instances to empty, which the first two versions did
// not write down.
var consolidationProgress = []string{"scaling# *cluster.ScalingHistory.ConsolidationHistory.Progress",
	"scaling# *cluster.ScalingHistory.ConsolidationHistory.EmptyingUntil"}

// dueWritten is when a due row was written, which the first two versions did not write down.
var dueWritten = []string{"due# *state.Due.WrittenAt"}

// unknownNames is the field of what a service's constraints name in vain, which the first two
// versions did not have.
var unknownNames = []string{"service# *cluster.Service.ServiceStatus.Blocked.Unknown"}

// launchTypes returns the fields of the types that a group launches, which the first two versions
// did not have.
func launchTypes() (fields []string) {
	for _, field := range []string{"", ".ByAttributes", ".ReadAt", ".Source", ".Types", ".Types[]",
		".Types[].Architecture", ".Types[].GPUs", ".Types[].Interfaces", ".Types[].Memory", ".Types[].Name",
		".Types[].VCPUs"} {
		fields = append(fields, "scaling# *cluster.ScalingHistory.Launches"+field)
	}
	return fields
}

// loadScaling returns the fields of desired counts that follow the load, which the first two
// versions did not have.
func loadScaling() []string {
	fields := []string{"service# *cluster.Service.ServiceStatus.ScaledAt"}
	for _, field := range []string{"", ".Metric", ".Lower", ".Upper", ".Increment", ".Min", ".Max",
		".IntervalSeconds"} {
		for _, of := range []string{"service# *cluster.Service.ServiceSpec", "task# *cluster.Task.TaskSpec",
			"request# *state.Request"} {
			fields = append(fields, of+".Rules.Scaling"+field)
		}
	}
	return fields
}

// rebalancing returns the fields of balancing, which the first two versions did not have.
func rebalancing() []string {
	fields := []string{"service# *cluster.Service.ServiceSpec.Rules.Rebalancing",
		"task# *cluster.Task.TaskSpec.Rules.Rebalancing", "request# *state.Request.Rules.Rebalancing",
		"task# *cluster.Task.TaskReport.Balances"}
	for _, field := range []string{"", ".Enabled", ".Weights", ".Weights{}", ".SafetyLevels", ".SafetyLevels{}",
		".EmptyMetrics", ".EmptyMetrics[]", ".EmptyInstances", ".EmptyShare", ".EmptyOverDomains", ".SettleSeconds",
		".IntervalSeconds", ".MovesAtOnce", ".ServiceMovesAtOnce", ".ServiceShare", ".WindowSeconds", ".MovesInWindow",
		".ServiceMovesInWindow"} {
		fields = append(fields, "configuration *cluster.Configuration.Rebalancing"+field)
	}
	return fields
}

// madeGroups are the fields of node groups that Berth makes, which the first two versions did not
// have.
var madeGroups = []string{
	"nodegroup# *cluster.NodeGroup.Target.AMIType", "nodegroup# *cluster.NodeGroup.Machines",
	"nodegroup# *cluster.NodeGroup.Machines.InstanceTypes", "nodegroup# *cluster.NodeGroup.Machines.InstanceTypes[]",
	"nodegroup# *cluster.NodeGroup.Machines.DiskSize", "nodegroup# *cluster.NodeGroup.Machines.CapacityType",
	"nodegroup# *cluster.NodeGroup.Machines.CreatingSince",
	"nodegroup# *cluster.NodeGroup.Machines.LaunchTemplate", "update# *cluster.Update.UpdateSpec.Target.AMIType",
	"nodegroup# *cluster.NodeGroup.NodeLabels.RemovedLabels",
	"nodegroup# *cluster.NodeGroup.NodeLabels.RemovedLabels[]",
	"update# *cluster.Update.UpdateSpec.Labels", "update# *cluster.Update.UpdateSpec.Labels.Set",
	"update# *cluster.Update.UpdateSpec.Labels.Set{}", "update# *cluster.Update.UpdateSpec.Labels.Remove",
	"update# *cluster.Update.UpdateSpec.Labels.Remove[]",
}

// sharedCalls are the fields by which starts and stops share calls, which the first two versions
// did not have.
var sharedCalls = []string{
	"outbox# *state.Outbox.Deadline", "bucket# *state.Bucket.Starts", "bucket# *state.Bucket.StartsWait",
	"bucket# *state.Bucket.StopsWait",
}

// affinity are the fields of affinity, which the first two versions did not have.
var affinity = []string{"service# *cluster.Service.ServiceSpec.Rules.Affinity",
	"task# *cluster.Task.TaskSpec.Rules.Affinity", "request# *state.Request.Rules.Affinity",
	"configuration *cluster.Configuration.Priorities.Affinity"}

// applications returns the fields of applications, which the first two versions did not have.
func applications() []string {
	out := []string{"service# *cluster.Service.ServiceSpec.Rules.Application",
		"task# *cluster.Task.TaskSpec.Rules.Application", "request# *state.Request.Rules.Application"}
	for _, field := range []string{"", "{}", "{}.MinimumNodes", "{}.MaximumNodes", "{}.Metrics", "{}.Metrics{}",
		"{}.Metrics{}.NodeCapacity", "{}.Metrics{}.TotalCapacity", "{}.Metrics{}.Reservation"} {
		out = append(out, "configuration *cluster.Configuration.Applications"+field)
	}
	return out
}

// taints returns the fields of taints and tolerations, which the first two versions did not have.
func taints() (fields []string) {
	for _, list := range []string{"nodegroup# *cluster.NodeGroup.NodeLabels.Taints",
		"update# *cluster.Update.UpdateSpec.Labels.SetTaints",
		"update# *cluster.Update.UpdateSpec.Labels.RemoveTaints"} {
		for _, field := range []string{"", "[]", "[].Key", "[].Value", "[].Effect"} {
			fields = append(fields, list+field)
		}
	}
	for _, rules := range []string{"service# *cluster.Service.ServiceSpec", "task# *cluster.Task.TaskSpec",
		"request# *state.Request"} {
		for _, field := range []string{"", "[]", "[].Key", "[].Effect", "[].Value", "[].AnyValue"} {
			fields = append(fields, rules+".Rules.Tolerations"+field)
		}
	}
	return fields
}

// askedChanges are the fields of updates that the second version did not have.
var askedChanges = []string{
	"update# *cluster.Update.UpdateProgress.Asked", "update# *cluster.Update.UpdateProgress.Asked[]",
	"update# *cluster.Update.UpdateProgress.Asked[].Kind", "update# *cluster.Update.UpdateProgress.Asked[].Instance",
	"update# *cluster.Update.UpdateProgress.Asked[].Template",
	"update# *cluster.Update.UpdateProgress.Asked[].Max", "update# *cluster.Update.UpdateProgress.Asked[].Desired",
	"update# *cluster.Update.UpdateProgress.Asked[].At",
	"update# *cluster.Update.UpdateProgress.Denied", "update# *cluster.Update.UpdateProgress.Denied[]",
	"update# *cluster.Update.UpdateProgress.Denied[].Kind", "update# *cluster.Update.UpdateProgress.Denied[].Instance",
	"update# *cluster.Update.UpdateProgress.Denied[].Template",
	"update# *cluster.Update.UpdateProgress.Denied[].Max", "update# *cluster.Update.UpdateProgress.Denied[].Desired",
	"update# *cluster.Update.UpdateProgress.Denied[].At",
}

// accountSettings are the fields of a kind of row that the first version did not have.
var accountSettings = []string{
	"settings *state.AccountSettings", "settings *state.AccountSettings.Head",
	"settings *state.AccountSettings.Head.Cluster", "settings *state.AccountSettings.Head.Rev",
	"settings *state.AccountSettings.Head.Stamp", "settings *state.AccountSettings.Head.Expires",
	"settings *state.AccountSettings.Principals", "settings *state.AccountSettings.Principals{}",
	"settings *state.AccountSettings.Principals{}{}",
}

// definitionTags is the field of cached task definitions that the first version did not have.
var definitionTags = []string{"taskdef# *cluster.TaskDefinition.Tags", "taskdef# *cluster.TaskDefinition.Tags{}"}

// taskSets returns the fields of services with the deployment controller EXTERNAL, which the first
// two versions did not have.
func taskSets() []string {
	const service = "service# *cluster.Service."
	fields := []string{
		service + "ServiceIdentity.Controller", "target# *cluster.Target.Registrations[].ExternalID",
	}
	for _, deployment := range []string{"ServiceStatus.Deployment", "ServiceStatus.Older[]"} {
		for _, field := range []string{
			"", ".Scale", ".ExternalID", ".External", ".Tags", ".Tags{}", ".Token", ".Params", ".Draining", ".Steady",
			".StabilityAt",
		} {
			fields = append(fields, service+deployment+".Set"+field)
		}
	}
	return fields
}

// volumes returns the fields of volumes at launch and of tasks' own options, which the first two
// versions did not have.
func volumes() (fields []string) {
	const service = "service# *cluster.Service.ServiceStatus."
	lists := []string{"outbox# *state.Outbox.Launch.", "revision# *cluster.ServiceRevision.Revision.",
		service + "Deployment.Revision.", service + "Last.", service + "Older[].Revision."}
	for _, options := range []string{"request# *state.Request.Overrides.Options",
		"task# *cluster.Task.TaskSpec.Overrides.Options"} {
		fields = append(fields, options, options+".ExecuteCommand")
		lists = append(lists, options+".")
	}
	for _, list := range lists {
		for _, field := range []string{
			"", "[]", "[].Name", "[].Role", "[].Type", "[].GiB", "[].Snapshot", "[].InitRate", "[].IOPS",
			"[].Throughput", "[].FileSystem", "[].Encrypted", "[].KMSKey", "[].Kept", "[].Tags", "[].Tags.Propagate",
			"[].Tags.Own", "[].Tags.Own{}",
		} {
			fields = append(fields, list+"Volumes"+field)
		}
	}
	for _, overrides := range []string{"request# *state.Request.", "task# *cluster.Task.TaskSpec."} {
		const files = "Overrides.Containers[].EnvironmentFiles"
		fields = append(fields, overrides+files, overrides+files+"[]")
	}
	return fields
}

// forEachVersion runs a test for every folder of testdata.
func forEachVersion(t *testing.T, test func(t *testing.T, folder string, m manifest)) {
	found, err := filepath.Glob("testdata/*/manifest.json")
	if err != nil || len(found) == 0 {
		t.Fatalf("nothing is stored: %v", err)
	}
	for _, path := range found {
		folder := filepath.Dir(path)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			var m manifest
			readJSON(t, path, &m)
			test(t, folder, m)
		})
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestStateFiles reads every row and every record of the stream in the files, and checks that it is
// written back unchanged.
func TestStateFiles(t *testing.T) {
	forEachVersion(t, func(t *testing.T, folder string, m manifest) {
		count := 0
		for _, name := range []string{"berth", "every-field"} {
			path := filepath.Join(unpackedCopy(t, filepath.Join(folder, name)), "state.db")
			file := readStateFile(t, path)
			count += len(file.rows)
			for key, data := range file.rows {
				checkRoundTrip(t, key, data)
			}
			for _, r := range file.records {
				checkRoundTrip(t, r.key, r.old)
				checkRoundTrip(t, r.key, r.next)
			}
			if len(file.records) == 0 {
				t.Errorf("%s has no record of the stream", name)
			}
			checkOpens(t, path, file)
		}
		if count != m.Rows {
			t.Errorf("the files have %d rows, want %d", count, m.Rows)
		}
	})
}

// TestInboxRows reads the tasks that inbox rows have packed. Each must be stored, in the same revision or
// a later one.
func TestInboxRows(t *testing.T) {
	forEachVersion(t, func(t *testing.T, folder string, _ manifest) {
		rows := readStateFile(t, filepath.Join(unpackedCopy(t, filepath.Join(folder, "berth")), "state.db")).rows
		count := 0
		for key, data := range rows {
			if !strings.HasPrefix(key.Sort, state.PrefixInbox) {
				continue
			}
			row, err := state.DecodeRow(key.Sort, data)
			if err != nil {
				t.Fatal(err)
			}
			tasks, err := row.(*state.Inbox).Tasks()
			if err != nil {
				t.Error(err)
			}
			for _, task := range tasks {
				count++
				stored, err := state.DecodeRow(state.PrefixTask, rows[state.KeyOf(task)])
				if err != nil || stored.Header().Rev < task.Rev || stored.(*cluster.Task).CreatedAt != task.CreatedAt {
					t.Errorf("inbox row %s has task %s of revision %d, which is stored as %+v, %v", key.Sort, task.ID,
						task.Rev, stored, err)
				}
			}
		}
		if hasInbox := !slices.Contains(beforeSpread, filepath.Base(folder)); hasInbox != (count > 0) {
			t.Errorf("inbox rows have %d tasks", count)
		}
	})
}

func checkRoundTrip(t *testing.T, key state.Key, data []byte) {
	t.Helper()
	if len(data) == 0 {
		return // there was no row
	}
	row, err := state.DecodeRow(key.Sort, data)
	if err != nil {
		t.Error(err)
		return
	}
	again, err := state.EncodeRow(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range findDifferences("", parseJSON(t, data), parseJSON(t, again)) {
		t.Errorf("%s %s%s", key.Cluster, key.Sort, d)
	}
	if state.KeyOf(row) != key {
		t.Errorf("%s is read as %s", key, state.KeyOf(row))
	}
}

// checkOpens checks that a store opened with the file has everything in it.
func checkOpens(t *testing.T, path string, file stateFile) {
	t.Helper()
	store, err := embedded.OpenStore(embedded.StoreOptions{Path: path, Consumers: []string{"placement", "dispatch"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	for key, data := range file.rows {
		got, err := store.Get(t.Context(), key)
		if err != nil || got == nil {
			t.Errorf("the store has no row %s, %v", key, err)
			continue
		}
		want, err := state.DecodeRow(key.Sort, data)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", key, err, diff)
		}
	}
	longest := max(len(store.PendingRecords("placement")), len(store.PendingRecords("dispatch")))
	if longest != len(file.records) {
		t.Errorf("%d records wait for a function, want %d", longest, len(file.records))
	}
}

// TestTable decodes every item of the export, as an item and as an image of the stream. It must be
// the row of the state file, and be written back unchanged.
func TestTable(t *testing.T) {
	forEachVersion(t, func(t *testing.T, folder string, m manifest) {
		b, lines := readTable(t, filepath.Join(folder, "table.jsonl"))
		rows, err := b.listRows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != m.Rows || len(lines) != m.Rows {
			t.Errorf("%d items give %d rows, want %d", len(lines), len(rows), m.Rows)
		}
		files := map[state.Key][]byte{}
		for _, name := range []string{"berth", "every-field"} {
			maps.Copy(files, readStateFile(t, filepath.Join(unpackedCopy(t, filepath.Join(folder, name)),
				"state.db")).rows)
		}
		again := &table{items: map[state.Key]map[string]types.AttributeValue{}}
		store := &dynamo.State{Client: again, Table: "berth"}
		decoded := map[state.Key]state.Row{}
		for _, row := range rows {
			key := state.KeyOf(row)
			decoded[key] = row
			want, err := state.DecodeRow(key.Sort, files[key])
			if diff := cmp.Diff(want, row); err != nil || diff != "" {
				t.Errorf("%s: %v %s", key, err, diff)
			}
			if _, err := store.Write(t.Context(), state.Write{Put: row}); err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range lines {
			image := streamRecord(t, line)
			key := image.Key
			written := again.items[key]
			if slices.Contains(beforeSpread, filepath.Base(folder)) {
				written["pk"] = &types.AttributeValueMemberS{Value: key.Cluster}
			}
			got, err := json.Marshal(itemJSON(written))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range findDifferences("", parseJSON(t, line), parseJSON(t, got)) {
				t.Errorf("%s %s%s", key.Cluster, key.Sort, d)
			}
			if diff := cmp.Diff(decoded[key], image.New) + cmp.Diff(decoded[key], image.Old); diff != "" {
				t.Errorf("%s from the stream: %s", key, diff)
			}
		}
	})
}

// streamRecord returns a stream record whose images are an item.
func streamRecord(t *testing.T, item json.RawMessage) state.Record {
	t.Helper()
	var e events.DynamoDBEventRecord
	data := `{"eventID":"1","eventName":"MODIFY","dynamodb":{"SequenceNumber":"1","OldImage":` + string(item) + `,"NewImage":` + string(item) + `}}`
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatal(err)
	}
	r, err := dynamo.DecodeRecord(e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEveryFieldHasAValue checks that every field of every kind of row has a value in some decoded
// row.
func TestEveryFieldHasAValue(t *testing.T) {
	forEachVersion(t, func(t *testing.T, folder string, _ manifest) {
		b, _ := readTable(t, filepath.Join(folder, "table.jsonl"))
		rows, err := b.listRows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range unsetFields(rows) {
			if !slices.Contains(addedFields[filepath.Base(folder)], field) {
				t.Errorf("%s has a value in no row", field)
			}
		}
	})
}

// TestEveryKindIsListed checks that rowPrefixes lists all kinds of rows. A new kind needs a folder
// with a row of it.
func TestEveryKindIsListed(t *testing.T) {
	files, err := filepath.Glob(root + "/shared/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		kinds += len(kindLine.FindAll(source, -1))
	}
	if kinds != len(rowPrefixes) {
		t.Errorf("there are %d kinds of rows, and %d are listed here", kinds, len(rowPrefixes))
	}
}

// kindLine matches a line of the table that says which row a prefix stands for.
var kindLine = regexp.MustCompile(`(?m)^\t\{(cluster\.|state\.)?Prefix\w+, func\(\)`)

// TestAnswers opens an installation with the folder and compares its answers with those of the
// version that wrote it.
func TestAnswers(t *testing.T) {
	forEachVersion(t, func(t *testing.T, folder string, m manifest) {
		var want map[string]json.RawMessage
		readJSON(t, filepath.Join(folder, "answers.json"), &want)
		got := openWorld(t, unpackedCopy(t, filepath.Join(folder, "berth")), m.At).recordAnswers()
		for name, answer := range want {
			if got[name] == nil {
				t.Errorf("%s was not asked", name)
				continue
			}
			for _, d := range findDifferences("", comparableAnswer(parseJSON(t, answer)),
				comparableAnswer(parseJSON(t, got[name]))) {
				if !isFuller(name, d) {
					t.Errorf("%s: %s", name, d)
				}
			}
		}
	})
}

// comparableAnswer leaves FARGATE and FARGATE_SPOT out of an answer that lists capacity providers.
// Later versions list them, as AWS does.
func comparableAnswer(answer any) any {
	members, _ := answer.(map[string]any)
	if providers, isList := members["capacityProviders"].([]any); isList {
		members["capacityProviders"] = slices.DeleteFunc(providers, func(p any) bool {
			provider, _ := p.(map[string]any)
			return provider["type"] == "FARGATE" || provider["type"] == "FARGATE_SPOT"
		})
	}
	return answer
}

// fullerAnswers are the members that later versions answer as AWS does, and the versions of the
// folders did not: by operation, without the positions in lists.
var fullerAnswers = map[string][]string{
	"DescribeTasks": {
		".tasks.overrides.containerOverrides", ".tasks.connectivity", ".tasks.connectivityAt", ".tasks.stoppingAt",
		".tasks.executionStoppedAt", ".tasks.pullStartedAt", ".tasks.pullStoppedAt",
		".tasks.containers.networkBindings",
		".tasks.containers.networkInterfaces", ".tasks.containers.gpuIds", ".tasks.attachments",
		".tasks.attachments.details",
	},
	"DescribeTaskDefinition": {
		".taskDefinition.containerDefinitions.portMappings.protocol",
		".taskDefinition.containerDefinitions.portMappings.hostPort",
	},
	// Only with ATTACHMENTS, and tasks as Berth counts them.
	"DescribeClusters": {
		".clusters.runningTasksCount", ".clusters.pendingTasksCount", ".clusters.attachments",
		".clusters.attachmentsStatus",
	},
	"DescribeClusterConfiguration": {".revision"},
	"DescribeNodegroup":            {".nodegroup.releaseVersion", ".nodegroup.capacityType", ".nodegroup.diskSize"},
	// The simulated AWS describes more of both.
	"Action=DescribeTargetGroups&Version=2015-12-01":      {""},
	"Action=DescribeAutoScalingGroups&Version=2011-01-01": {""},
}

var listPosition = regexp.MustCompile(`\[\d+\]`)

// isFuller reports whether a difference in an answer is one of fullerAnswers.
func isFuller(name, difference string) bool {
	operation, _, _ := strings.Cut(name, " ")
	path, _, _ := strings.Cut(difference, ": ")
	return slices.Contains(fullerAnswers[operation], listPosition.ReplaceAllString(path, ""))
}

// TestSnapshotRange checks that no other kinds of a cluster's rows lie between those that a
// snapshot reads in one range.
func TestSnapshotRange(t *testing.T) {
	read := []string{state.PrefixService, state.PrefixTarget, state.PrefixTask, state.PrefixDefinition,
		state.PrefixThrottle}
	for _, prefix := range rowPrefixes {
		if prefix == state.PrefixSettings {
			continue // belongs to no cluster
		}
		isBetween := prefix >= state.PrefixService && prefix <= state.PrefixThrottle
		if isBetween != slices.Contains(read, prefix) {
			t.Errorf("rows %s lie between %s and %s: %v", prefix, state.PrefixService, state.PrefixThrottle, isBetween)
		}
	}
}

// lastingKinds are kinds of rows that do not end by themselves.
var lastingKinds = []string{
	state.PrefixMeta, state.PrefixEntry, state.PrefixService, state.PrefixDefinition, state.PrefixBucket,
	state.PrefixNodeGroup, state.PrefixUpdate, state.PrefixProvider, state.PrefixScaling, state.PrefixGroupUse,
	state.PrefixProviders, state.PrefixConfiguration, state.PrefixDeployment, state.PrefixRevision, state.PrefixEvent,
	state.PrefixCheckpoint,
}

// TestGoesOn starts an installation with the folder: it continues without an error or a lost row,
// and everything in progress ends.
func TestGoesOn(t *testing.T) {
	forEachVersion(t, func(t *testing.T, folder string, m manifest) {
		w := openWorld(t, unpackedCopy(t, filepath.Join(folder, "berth")), m.At)
		before := w.rowsOf(state.Directory, shop, yard)
		w.checkError(w.Start(t.Context()))
		// as their owner does when Berth begins to ask for it
		for _, group := range []string{"spot-group", "yard-group"} {
			w.checkError(w.AWS.Groups.TagGroup(t.Context(), group, handler.OwnerTag, installation.Name))
		}
		w.passTime(2 * time.Hour) // one task is protected for an hour
		for _, line := range w.logged.lines {
			t.Errorf("it logs %s", line)
		}
		for _, row := range before {
			got := mustSucceed(w.Store.Get(t.Context(), state.KeyOf(row)))(w)
			if got == nil && row.Header().Expires == 0 && slices.Contains(lastingKinds, kindOf(state.KeyOf(row).Sort)) {
				t.Errorf("row %s is lost", state.KeyOf(row))
			}
			if work := kindOf(state.KeyOf(row).Sort); got != nil &&
				(work == state.PrefixOutbox || work == state.PrefixLoad) {
				t.Errorf("row %s is still to be done", state.KeyOf(row))
			}
		}
		w.checkRestored()
	})
}

// checkRestored checks that all services have the tasks they want, except those that cannot.
func (w *world) checkRestored() {
	w.Helper()
	for _, row := range w.rowsOf(shop, yard) {
		switch r := row.(type) {
		case *cluster.Service:
			able := r.Name != "huge" && r.Name != "broken" && r.Name != "gone"
			if able && (r.Running != r.Desired || !r.Deployment.IsCompleted()) {
				w.Errorf("of service %s %d tasks run, want %d; its deployment is %s", r.Name, r.Running, r.Desired,
					r.Deployment.State)
			}
		case *cluster.Update:
			if r.Status != cluster.UpdateSuccessful {
				w.Errorf("update %s is %s: %v", r.ID, r.Status, r.Errors)
			}
		case *state.Request:
			if !r.Answered {
				w.Errorf("request %s has no answer", r.ID)
			}
		}
	}
}
