package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth"
	"berth/shared/cluster"
)

// fault is one thing that is wrong with an installation, and the one finding that it makes.
type fault struct {
	name, check string
	verdict     Verdict
	plant       func(f *Facts)
	value       string // a part of the thing and its value
	command     string // a part of the command
}

// each fault makes one finding, in one check.
var faults = []fault{
	{"ClockBehind", "clock", Fail, func(f *Facts) { f.ClockOffset = 10 * time.Minute },
		"this machine's clock: 10m0s behind AWS's", "timedatectl"},
	{"ClockAhead", "clock", Warn, func(f *Facts) { f.ClockOffset = -time.Minute }, "1m0s ahead of AWS's",
		"timedatectl"},
	{"StackRolledBack", "stack", Fail, func(f *Facts) { f.Stack.Status = "ROLLBACK_COMPLETE" },
		"stack prod: ROLLBACK_COMPLETE", "make deploy"},
	{"UpdateRolledBack", "stack", Warn, func(f *Facts) { f.Stack.Status = "UPDATE_ROLLBACK_COMPLETE" },
		"UPDATE_ROLLBACK_COMPLETE", "make deploy"},
	{"ResourceOfAnotherVersion", "stack", Fail, func(f *Facts) { delete(f.Stack.Resources, "ApiFunctionUrl") },
		"ApiFunctionUrl: the stack does not have it", "make deploy"},
	{"ResourceFailed", "stack", Fail, func(f *Facts) {
		f.Stack.Resources["Dashboard"] = Resource{ID: "d", Status: "UPDATE_FAILED", Reason: "no room"}
	}, "Dashboard: UPDATE_FAILED no room", "describe-stack-events --stack-name prod"},
	{"FunctionFailed", "functions", Fail, func(f *Facts) {
		change(f.Functions, "ApiFunction", func(x *Function) { x.State, x.StateReason = "Failed", "no image" })
	}, "ApiFunction: Failed no image", "make deploy"},
	{"OtherRole", "functions", Fail, func(f *Facts) {
		change(f.Functions, "ApiFunction", func(x *Function) { x.Role = "arn:aws:iam::123456789012:role/mine" })
	}, "ApiFunction: its role is arn:aws:iam::123456789012:role/mine", "--role-name prod-ApiRole"},
	{"OtherTable", "functions", Fail, func(f *Facts) {
		change(f.Functions, "DispatchFunction", func(x *Function) { x.Variables = map[string]string{} })
	}, `TABLE_NAME is "" instead of "prod-Table"`, "make deploy"},
	{"KeyOfAnother", "functions", Unknown, func(f *Facts) {
		change(f.Functions, "DispatchFunction", func(x *Function) {
			x.Variables, x.VariablesErr = nil, errors.New("AccessDeniedException: no kms:Decrypt")
		})
	}, "the variables of DispatchFunction", ""},
	{"SwitchedOff", "functions", Fail, func(f *Facts) {
		change(f.Functions, "DispatchFunction", func(x *Function) { x.Reserved.Got = new(int) })
	}, "reserved concurrency 0", "delete-function-concurrency --function-name prod-DispatchFunction"},
	{"NoPolicy", "permissions", Fail, func(f *Facts) {
		change(f.Roles, "ThrottlingRole", func(x *Role) { x.Policies = nil })
	}, "ThrottlingRole: role prod-ThrottlingRole does not allow logs:CreateLogStream on arn:aws:logs:eu-west-1:123456789012:",
		`put-role-policy --role-name prod-ThrottlingRole --policy-name throttling --policy-document '{"Statement":[`},
	{"Boundary", "permissions", Unknown, func(f *Facts) {
		change(f.Roles, "ApiRole", func(x *Role) { x.Boundary = "arn:b" })
	}, "permissions boundary arn:b is not checked", ""},
	{"RoleDeleted", "permissions", Fail, func(f *Facts) { f.Roles["ApiRole"] = Read[Role]{Err: ErrMissing} },
		"ApiRole: it does not exist", "detect-stack-drift --stack-name prod"},
	{"TableWithoutExpiry", "table", Warn, func(f *Facts) { f.Table.Got.TTL.Got = "" }, `attribute ""`,
		"update-time-to-live --table-name prod-Table"},
	{"TableArchived", "table", Fail, func(f *Facts) { f.Table.Got.Status = "INACCESSIBLE_ENCRYPTION_CREDENTIALS" },
		"INACCESSIBLE", "wait table-exists"},
	{"StreamOff", "table", Fail, func(f *Facts) { f.Table.Got.StreamARN = "" }, "stream of table prod-Table: off",
		"StreamViewType=NEW_AND_OLD_IMAGES"},
	{"MappingDisabled", "event source mappings", Fail, func(f *Facts) {
		change(f.Mappings, "PlacementFunctionState", func(x *Mapping) {
			x.State, x.Reason = "Disabled",
				"USER_INITIATED"
		})
	}, "PlacementFunctionState, from the table's stream to placement: Disabled USER_INITIATED",
		"update-event-source-mapping --uuid prod-PlacementFunctionState --enabled"},
	{"MappingOfAnOldStream", "event source mappings", Fail, func(f *Facts) {
		change(f.Mappings, "DispatchFunctionState", func(x *Mapping) { x.Source = "arn:old" })
	}, "it reads arn:old", "make deploy"},
	{"MappingFails", "event source mappings", Warn, func(f *Facts) {
		change(f.Mappings, "DispatchFunctionWake", func(x *Mapping) { x.LastResult = "PROBLEM: Function call failed" })
	}, "from WakeQueue to dispatch: its last batch: PROBLEM", "logs filter-log-events --log-group-name /berth/prod/dispatch --start-time $(($(date +%s) - 3600))000 "},
	{"RuleOff", "rules", Fail, func(f *Facts) {
		change(f.Rules, "LoadEvents", func(x *Rule) { x.State, x.Bus = "DISABLED", "prod-LoadBus" })
	}, "rule LoadEvents: DISABLED", "enable-rule --name LoadEvents --event-bus-name prod-LoadBus"},
	{"RuleWithoutTarget", "rules", Fail, func(f *Facts) {
		change(f.Rules, "TaskEvents", func(x *Rule) { x.Targets.Got = nil })
	}, "rule TaskEvents: its targets are []", "put-targets --rule TaskEvents --event-bus-name default --targets " +
		"'Id=EventsQueue,Arn=arn:aws:sqs:eu-west-1:123456789012:prod-EventsQueue," +
		"DeadLetterConfig={Arn=arn:aws:sqs:eu-west-1:123456789012:prod-RuleDeadLetters}'"},
	{"ScheduleOff", "schedules", Fail, func(f *Facts) {
		change(f.Schedules, "DispatchFunctionMinute", func(x *Schedule) {
			x.State, x.Expression, x.Settings = "DISABLED", "rate(1 minute)", `{"Arn": "a"}`
		})
	}, "schedule DispatchFunctionMinute: DISABLED",
		`update-schedule --name DispatchFunctionMinute --state ENABLED --schedule-expression 'rate(1 minute)'`},
	{"QueueGrowsOld", "queues", Fail, func(f *Facts) {
		change(f.Queues, "EventsQueue", func(x *Queue) { x.Visible, x.OldestAge = 3, new(time.Hour) })
	}, "EventsQueue: 3 messages, the oldest for 1h0m0s", "logs filter-log-events --log-group-name /berth/prod/task-state-change "},
	{"QueueWithoutDeadLetters", "queues", Fail, func(f *Facts) {
		change(f.Queues, "WakeQueue", func(x *Queue) { x.DeadLettersARN = "" })
	}, `its dead letters go to ""`, "make deploy"},
	{"DeadLetters", "dead letters", Fail, func(f *Facts) {
		change(f.Queues, "EventsDeadLetters", func(x *Queue) { x.Visible, x.OldestAge = 1, new(time.Hour) })
	}, "EventsDeadLetters: 1 message, the oldest for 1h0m0s of EventsQueue, which task-state-change could not handle",
		"start-message-move-task --source-arn arn:aws:sqs:eu-west-1:123456789012:prod-EventsDeadLetters"},
	{"RecordsGivenUp", "dead letters", Fail, func(f *Facts) {
		change(f.Queues, "StreamFailures", func(x *Queue) { x.InFlight = 2 })
	}, "StreamFailures: 2 messages: stream records that a function gave up", "purge-queue --queue-url https://sqs."},
	{"UndeliveredEvents", "dead letters", Fail, func(f *Facts) {
		change(f.Queues, "RuleDeadLetters", func(x *Queue) { x.Visible = 1 })
	}, "RuleDeadLetters: 1 message: events that rules could not put into their queues",
		"purge-queue --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/prod-RuleDeadLetters"},
	{"FailedSweeps", "dead letters", Fail, func(f *Facts) {
		change(f.Queues, "FailedSweeps", func(x *Queue) { x.Visible = 1 })
	}, "FailedSweeps: 1 message: scheduled runs of task-state-change that failed",
		"purge-queue --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/prod-FailedSweeps"},
	{"NewAccount", "quotas", Fail, func(f *Facts) { f.Lambda.Got = LambdaLimits{10, 10} },
		"10 in the account, 10 of them unreserved", "--service-code lambda --quota-code L-B99A9384"},
	{"ReservedByOthers", "quotas", Warn, func(f *Facts) { f.Lambda.Got.Unreserved = 9 }, "9 of them unreserved",
		"--service-code lambda"},
	{"NoMoreGroups", "quotas", Fail, func(f *Facts) { f.Scaling.Got = ScalingLimits{200, 200} },
		"Auto Scaling groups: 200 of 200", "L-CDE20ADC --desired-value 400"},
	{"FewGroupsLeft", "quotas", Warn, func(f *Facts) { f.Scaling.Got = ScalingLimits{180, 200} },
		"Auto Scaling groups: 180 of 200", "--quota-code L-CDE20ADC --desired-value 400"},
	{"RoomForOneGroup", "quotas", Warn, func(f *Facts) { f.Scaling.Got = ScalingLimits{199, 200} },
		"Auto Scaling groups: 199 of 200", "--quota-code L-CDE20ADC --desired-value 400"},
	{"NoMoreLaunchTemplates", "quotas", Fail, func(f *Facts) {
		change(f.Quotas, LaunchTemplates, func(x *Quota) { x.Used.Got = 5000 })
	}, "launch templates: 5000 of 5000", "--service-code ec2 --quota-code L-FB451C26 --desired-value 10000"},
	{"FewInterfacesLeft", "quotas", Warn, func(f *Facts) {
		change(f.Quotas, NetworkInterfaces, func(x *Quota) { x.Used.Got = 4500 })
	}, "network interfaces: 4500 of 5000", "--service-code vpc --quota-code L-DF5E4CA3 --desired-value 10000"},
	{"NoMoreVCPUs", "quotas", Fail, func(f *Facts) { f.useVCPUs("L-1216C47A", 32, 32) },
		"vCPUs of On-Demand Standard instances: 32 of 32", "--quota-code L-1216C47A --desired-value 64"},
	{"NoRoomForOneMachine", "quotas", Fail, func(f *Facts) { f.useVCPUs("L-1216C47A", 5, 4) },
		"vCPUs of On-Demand Standard instances: 4 of 5", "--quota-code L-1216C47A --desired-value 10"},
	{"NoQuotaOfVCPUs", "quotas", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.OnDemand = []string{"g5.12xlarge"} })
		f.useVCPUs("L-DB2E81BA", 0, 0)
	}, "vCPUs of On-Demand G and VT instances: 0 of 0", "--quota-code L-DB2E81BA --desired-value 48"},
	{"RoomForOneOfTheSmallestType", "quotas", Warn, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.OnDemand = []string{"m5.4xlarge", "m5.large"} })
		f.VCPUs.Got["m5.4xlarge"] = 16
		f.useVCPUs("L-1216C47A", 32, 30)
	}, "vCPUs of On-Demand Standard instances: 30 of 32", "--quota-code L-1216C47A --desired-value 64"},
	{"NoUsageOfVCPUsAndAMachine", "quotas", Unknown, func(f *Facts) {
		f.Quotas[QuotaID{"ec2", "L-1216C47A"}] = Read[Quota]{Got: Quota{Value: 32,
			Used: Read[float64]{Err: ErrNoDatapoint}}}
	}, "how many vCPUs of On-Demand Standard instances run: not checked: CloudWatch has no datapoint", ""},
	{"FewSpotVCPUsLeft", "quotas", Warn, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.OnDemand, x.Spot = nil, []string{"m5.large"} })
		f.useVCPUs("L-34B43A08", 100, 90)
	}, "vCPUs of Spot Standard instances: 90 of 100", "--quota-code L-34B43A08 --desired-value 200"},
	{"FewInstancesLeft", "quotas", Warn, func(f *Facts) {
		c := &f.Clusters.Got[0]
		for n := range 4499 {
			id := fmt.Sprint("more-", n)
			c.ECS.Got.Instances = append(c.ECS.Got.Instances, ECSInstance{ID: id, Status: "ACTIVE",
				AgentConnected: true})
			c.Known.Got = append(c.Known.Got, &cluster.Instance{ID: id, Status: "ACTIVE", AgentConnected: true})
		}
	}, "instances of cluster forge: 4500 of 5000", ""},
	{"RoomForOneService", "quotas", Warn, func(f *Facts) { f.Clusters.Got[0].Services = 4999 },
		"services of cluster forge: 4999 of 5000", "make deploy"},
	{"NoMoreServices", "quotas", Fail, func(f *Facts) { f.Clusters.Got[0].Services = 5000 },
		"services of cluster forge: 5000 of 5000", "make deploy"},
	{"NoMoreProcessors", "quotas", Fail, func(f *Facts) {
		change(f.Groups, "forge-group",
			func(x *Group) { x.Failure.Got = "VcpuLimitExceeded - You have requested more" })
	}, "launches of group forge-group: VcpuLimitExceeded", "--service-code ec2 --quota-code L-1216C47A"},
	{"NoMoreSpotProcessors", "quotas", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) {
			x.Spot, x.Failure.Got = []string{"g5.12xlarge"}, "MaxSpotInstanceCountExceeded - Max spot count exceeded"
		})
		f.useVCPUs("L-3819A6DF", 96, 48)
	}, "launches of group forge-group: MaxSpotInstanceCountExceeded", "--service-code ec2 --quota-code L-3819A6DF"},
	{"ClusterDeleted", "clusters", Fail, func(f *Facts) {
		f.Clusters.Got[0].ECS.Got, f.Clusters.Got[0].Known.Got = ECSCluster{Status: "INACTIVE"}, nil
		change(f.Groups, "forge-group", func(x *Group) { x.Instances = nil })
	}, "cluster forge: INACTIVE", "berth proxy --stack prod -- aws ecs create-cluster --cluster-name forge"},
	{"Disconnected", "clusters", Warn, func(f *Facts) {
		f.Clusters.Got[0].ECS.Got.Instances[0].AgentConnected = false
		f.Clusters.Got[0].Known.Got[0].AgentConnected = false
	}, "agents that are disconnected from ECS: i-0", "ssm start-session --target i-0"},
	{"EventLost", "events arrive", Fail, func(f *Facts) { f.Clusters.Got[0].Known.Got = nil },
		"Berth does not know i-0, which ECS has", "--function-name prod-TaskStateChangeFunction"},
	{"EventOnItsWay", "events arrive", Warn, func(f *Facts) { f.Clusters.Got[0].Known.Got[0].Status = "DRAINING" },
		"status or agent differ at ECS for i-0", "prod-TaskStateChangeFunction"},
	{"Untagged", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Tags = nil })
	}, "group forge-group of capacity provider p: it has no tag berth:installation",
		"Key=berth:installation,Value=prod,PropagateAtLaunch=false"},
	{"OfAnother", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Tags["berth:installation"] = "test" })
	}, "the tag berth:installation is test", "Value=prod"},
	{"GroupDeleted", "groups", Fail, func(f *Facts) { f.Groups["forge-group"] = Read[Group]{Err: ErrMissing} },
		"group forge-group of capacity provider p: it does not exist", ""},
	{"NoProfile", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.Profile = "" })
	}, "version 7 of launch template workers has no instance profile", `'{"IamInstanceProfile": {"Name": "NODE"}}'`},
	{"ProfileDeleted", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.Roles.Err = ErrMissing })
	}, "instance profile node does not exist", "create-instance-profile --instance-profile-name node"},
	{"ProfileWithoutRole", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.Roles.Got = nil })
	}, "instance profile node has no role", "add-role-to-instance-profile --instance-profile-name node"},
	{"RoleWithoutPolicy", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.Roles.Got[0].Role.Got.Managed = nil })
	}, "role node does not allow ecs:DiscoverPollEndpoint on *; ecs:Poll",
		"attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/"},
	{"RoleWithoutPolicyInChina", "groups", Fail, func(f *Facts) {
		f.Stack.ID = strings.Replace(f.Stack.ID, "arn:aws:", "arn:aws-cn:", 1)
		change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.Roles.Got[0].Role.Got.Managed = nil })
	}, "role node does not allow ecs:DiscoverPollEndpoint on *; ecs:Poll", "--policy-arn arn:aws-cn:iam::aws:policy/"},
	{"OtherCluster", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.UserData = userData("ECS_CLUSTER=test") })
	}, "version 7 of launch template workers has ECS_CLUSTER=test", "--source-version 7"},
	{"NoCluster", "groups", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.UserData, x.Instances = "", nil })
	}, "names no cluster: its machines join default", "--source-version 7"},
	{"NeverJoins", "machines join", Fail, func(f *Facts) {
		change(f.Groups, "forge-group", func(x *Group) {
			x.Instances = append(x.Instances, Member{"i-9", "InService", testTime.Add(-11 * time.Minute)})
		})
	}, "in service, and in no cluster that Berth manages: i-9",
		"get-console-output --latest --output text --instance-id i-9"},
	{"JoinsAnother", "machines join", Fail, func(f *Facts) {
		f.addCluster("test", 0)
		f.Clusters.Got[1].ECS.Got.Instances = []ECSInstance{{ID: "c9", EC2: "i-9", Status: "ACTIVE",
			AgentConnected: true,
			RegisteredAt:   testTime}}
		change(f.Groups, "forge-group", func(x *Group) {
			x.Instances = append(x.Instances, Member{ID: "i-9", Lifecycle: "InService"})
		})
	}, "machines in another cluster: i-9 in test", "start-instance-refresh --auto-scaling-group-name forge-group"},
}

func TestEachFaultIsFoundAlone(t *testing.T) {
	if r := Examine(newFacts(t)); r.Verdict != OK || r.Summary() != "Stack prod in eu-west-1: all is well." {
		t.Fatalf("nothing is wrong, and it finds %+v", r)
	}
	for _, want := range faults {
		t.Run(want.name, func(t *testing.T) {
			f := newFacts(t)
			want.plant(f)
			r := Examine(f)
			if r.Verdict != want.verdict {
				t.Errorf("verdict %s, want %s", r.Verdict, want.verdict)
			}
			for _, c := range r.Checks {
				switch {
				case c.Name != want.check:
					if len(c.Findings) > 0 {
						t.Errorf("check %s finds %+v as well", c.Name, c.Findings)
					}
				case len(c.Findings) != 1:
					t.Errorf("%d findings, want 1: %+v", len(c.Findings), c.Findings)
				default:
					got := c.Findings[0]
					if text := got.Thing + ": " + got.Value; !strings.Contains(text, want.value) ||
						!strings.Contains(got.Command, want.command) || got.Verdict != want.verdict {
						t.Errorf("found %s, %q with the command %q, want %s, %q and %q", got.Verdict, text, got.Command,
							want.verdict, want.value, want.command)
					}
				}
			}
		})
	}
}

// What is well, although it looks like a fault.
func TestNoFault(t *testing.T) {
	for name, plant := range map[string]func(f *Facts){
		"AClockOffByTheDatesSecond": func(f *Facts) { f.ClockOffset = -time.Second },
		"AFunctionThatSleeps": func(f *Facts) {
			change(f.Functions, "ApiFunction", func(x *Function) { x.State = "Inactive" })
		},
		"AMachineThatIsNew": func(f *Facts) {
			change(f.Groups, "forge-group", func(x *Group) {
				x.Instances = append(x.Instances, Member{"i-9", "InService", testTime.Add(-9 * time.Minute)},
					Member{ID: "i-8", Lifecycle: "Pending"})
			})
		},
		"ARegistrationWhoseEventIsOnItsWay": func(f *Facts) {
			f.Clusters.Got[0].Known.Got = nil
			f.Clusters.Got[0].ECS.Got.Instances[0].RegisteredAt = testTime.Add(-time.Minute)
		},
		"AnImageThatNamesTheCluster": func(f *Facts) {
			change(f.Groups, "forge-group", func(x *Group) { x.Template.Got.UserData = "" })
		},
		"Bottlerocket": func(f *Facts) {
			change(f.Groups, "forge-group", func(x *Group) {
				// [settings.ecs] cluster = "forge"
				x.Template.Got.UserData = "W3NldHRpbmdzLmVjc10KY2x1c3RlciA9ICJmb3JnZSIK"
			})
		},
		"AWiderPolicy": func(f *Facts) {
			change(f.Roles, "ApiRole", func(x *Role) {
				x.Policies = []Policy{{[]Statement{{Effect: "Allow", Action: Texts{"*"}, Resource: Texts{"*"}}}}}
			})
		},
		"AQuotaThatNothingMeets": func(f *Facts) { f.useVCPUs("L-417A185B", 0, 0) },
		"NoUsageOfVCPUsAndNoMachine": func(f *Facts) {
			change(f.Groups, "forge-group", func(x *Group) { x.OnDemand, x.Instances = []string{"p4d.24xlarge"}, nil })
			f.Quotas[QuotaID{"ec2", "L-417A185B"}] = Read[Quota]{Got: Quota{Value: 96,
				Used: Read[float64]{Err: ErrNoDatapoint}}}
		},
		"AsMuchConcurrencyAsIsNeeded": func(f *Facts) {
			n := f.Plan.neededConcurrency()
			f.Lambda.Got = LambdaLimits{n, n}
		},
		"AReservationOfItsOwn": func(f *Facts) {
			for id := range f.Functions {
				change(f.Functions, id, func(x *Function) { x.Reserved.Got = new(5) })
			}
			f.Lambda.Got.Unreserved = 0
		},
	} {
		f := newFacts(t)
		if plant(f); Examine(f).Verdict != OK {
			t.Errorf("%s: %+v", name, Examine(f))
		}
	}
}

// Every action that template.yaml grants is missed when it is taken away, whatever the role, and
// under any parameters.
func TestEveryMissingGrantIsFound(t *testing.T) {
	all := map[string]string{"PublishEvents": "true", "KmsKeyArn": "arn:key", "NodeRoleArns": "arn:a,arn:b",
		"PassableRoleArns": "arn:c", "ImageParameterArns": "arn:d"}
	grants := 0
	for _, parameters := range []map[string]string{nil, all} {
		plan, err := NewPlan(berth.Template, newStack(t, parameters))
		if err != nil {
			t.Fatal(err)
		}
		for id, p := range plan.Roles {
			for n, s := range p.Statements {
				for at, action := range s.Action {
					grants++
					left := append([]Statement{}, p.Statements...)
					left[n].Action = append(append(Texts{}, s.Action[:at]...), s.Action[at+1:]...)
					role := Role{Policies: []Policy{{left}}}
					if missing := role.missingGrants(p.Statements); len(missing) != 1 ||
						!strings.HasPrefix(missing[0], action+" on ") {
						t.Errorf("%s without %s of %s: missing are %q", id, action, s.Sid, missing)
					}
				}
			}
		}
	}
	if grants < 250 {
		t.Errorf("%d grants were taken away", grants)
	}
}

func TestPoliciesDecideAsIAM(t *testing.T) {
	role := func(document string) *Role {
		p, err := ParsePolicy(document)
		if err != nil {
			t.Fatal(err)
		}
		return &Role{Policies: []Policy{p}}
	}
	const queue = "arn:aws:sqs:eu-west-1:1:prod-wake"
	tag := json.RawMessage(`{"StringEquals": {"aws:ResourceTag/a": "b"}}`)
	for document, want := range map[string]bool{
		`{"Statement": {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "` + queue + `"}}`:               true,
		`{"Statement": [{"Effect": "Allow", "Action": ["SQS:send*"], "Resource": ["arn:aws:sqs:*:prod-????"]}]}`:     true,
		`{"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}`:                                true,
		`{"Statement": [{"Effect": "Allow", "NotAction": "sqs:*", "Resource": "*"}]}`:                                false,
		`{"Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "arn:aws:sqs:eu-west-1:1:x"}]}`: false,
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*",
			"Condition": {"StringEquals": {"aws:ResourceTag/a": ["b"]}}}]}`: true,
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*",
			"Condition": {"StringEquals": {"aws:ResourceTag/a": "c"}}}]}`: false,
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"},
			{"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}]}`: false,
	} {
		if got := role(document).allows("sqs:SendMessage", queue, tag); got != want {
			t.Errorf("%s allows the action: %v, want %v", document, got, want)
		}
	}
}

// A pattern matches as the regular expression does that says the same.
func TestPatternsMatchAsRegularExpressions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab*?")), 0, 8, -1).Draw(t, "pattern")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 8, -1).Draw(t, "text")
		same := strings.NewReplacer("*", ".*", "?", ".").Replace(pattern)
		if got, want := matchesPattern(pattern, text), regexp.MustCompile("^"+same+"$").MatchString(text); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, text, got, want)
		}
	})
}

// What may not be read is unknown, with the permission, and never wrong.
func TestWhatMayNotBeReadIsUnknown(t *testing.T) {
	f := newFacts(t)
	denied := &Denied{Action: "x:Y"}
	deny(f.Functions, denied)
	deny(f.Roles, denied)
	deny(f.Mappings, denied)
	deny(f.Rules, denied)
	deny(f.Schedules, denied)
	deny(f.Queues, denied)
	deny(f.Quotas, denied)
	f.VCPUs.Err = denied
	f.Table.Err, f.Lambda.Err, f.Scaling.Err, f.Clusters = denied, denied, denied, Read[[]Cluster]{Err: denied}
	r := Examine(f)
	if r.Verdict != Unknown || r.Count(Unknown) != 11 {
		t.Errorf("verdict %s, %d unknown, want 11: %+v", r.Verdict, r.Count(Unknown), r)
	}
	for _, c := range r.Checks {
		for _, found := range c.Findings {
			if found.Value != "not checked: needs x:Y" {
				t.Errorf("check %s: %+v", c.Name, found)
			}
		}
		if c.Verdict == Unknown && len(c.Findings) != 1 {
			t.Errorf("check %s has %d findings for one reason", c.Name, len(c.Findings))
		}
	}
}

func deny[K comparable, T any](all map[K]Read[T], err error) {
	for id, r := range all {
		all[id] = Read[T]{Got: r.Got, Err: err}
	}
}

// Two reports of the same facts are equal, and so are their texts.
func TestReportsHaveAFixedOrder(t *testing.T) {
	f := newFacts(t)
	deny(f.Rules, &Denied{Action: "a:B"})
	deny(f.Queues, ErrMissing)
	first := Examine(f)
	var text strings.Builder
	if err := first.Print(&text); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		r := Examine(f)
		var again strings.Builder
		if err := r.Print(&again); err != nil || again.String() != text.String() || !reflect.DeepEqual(r, first) {
			t.Fatalf("%v: got\n%s\nand before\n%s", err, again.String(), text.String())
		}
	}
	for _, want := range []string{"ok       clock: ", "fail     queues: ", "         - WakeQueue: it does not exist\n",
		"           expected: what template.yaml makes\n",
		"Stack prod in eu-west-1: 2 checks fail, 1 check is incomplete, " +
			"12 checks are well.\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
}

// A quota that may not be read is unknown. Of launch templates and network interfaces, AWS's value
// for a new account then takes its place, unless more is used.
func TestQuotasThatMayNotBeRead(t *testing.T) {
	for used, want := range map[float64]Verdict{4499: Unknown, 4500: Warn, 5000: Fail, 5001: Unknown} {
		f := newFacts(t)
		deny(f.Quotas, &Denied{Action: "servicequotas:GetServiceQuota"})
		change(f.Quotas, LaunchTemplates, func(x *Quota) { x.Used.Got = used })
		c := checkQuotas(f)
		if c.Verdict != want {
			t.Errorf("%g launch templates: %s, want %s", used, c.Verdict, want)
		}
		last := c.Findings[len(c.Findings)-1]
		if last.Verdict != Unknown || last.Value != "not checked: needs servicequotas:GetServiceQuota" {
			t.Errorf("it does not say what it needs: %+v", last)
		}
	}
}

// Each batch of each queue, each stream, each schedule and one call of the API run at a time.
func TestNeededConcurrency(t *testing.T) {
	p := Plan{Schedules: map[string]PlannedSchedule{"a": {}, "b": {}},
		Mappings: map[string]PlannedMapping{"queue": {Concurrency: 10}, "stream": {Concurrency: 1}}}
	if n := p.neededConcurrency(); n != 14 {
		t.Errorf("%d functions may run at a time, want 14", n)
	}
}

// Each instance type is under the quota that AWS's documentation of EC2's quotas names.
func TestQuotasOfInstanceTypes(t *testing.T) {
	for name, want := range map[string]struct{ onDemand, spot string }{
		"m5.large": {"L-1216C47A", "L-34B43A08"}, "c7gn.xlarge": {"L-1216C47A", "L-34B43A08"},
		"im4gn.large": {"L-1216C47A", "L-34B43A08"}, "t4g.small": {"L-1216C47A", "L-34B43A08"},
		"g4dn.xlarge": {"L-DB2E81BA", "L-3819A6DF"}, "vt1.3xlarge": {"L-DB2E81BA", "L-3819A6DF"},
		"p4d.24xlarge": {"L-417A185B", "L-7212CCBC"}, "p5en.48xlarge": {"L-417A185B", "L-C4BD4855"},
		"inf2.xlarge": {"L-1945791B", "L-B5D1601B"}, "trn1.2xlarge": {"L-2C3B7624", "L-6B0D517C"},
		"dl1.24xlarge": {"L-6E869C2A", "L-85EED4F7"}, "x2idn.16xlarge": {"L-7295265B", "L-E3A00192"},
		"f2.6xlarge": {"L-74FC7D96", "L-88CF9481"}, "u-6tb1.metal": {"L-43DA4232", ""},
		"hpc7a.96xlarge": {"L-F7808C92", ""}, "mac2.metal": {"", ""}, "edge": {"", ""},
	} {
		onDemand, _, _ := vcpuQuotaOf(name, false)
		spot, _, _ := vcpuQuotaOf(name, true)
		if onDemand.Code != want.onDemand || spot.Code != want.spot {
			t.Errorf("%s is under %q and %q, want %v", name, onDemand.Code, spot.Code, want)
		}
	}
}
