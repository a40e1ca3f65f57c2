package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire"
	"berth/shared/wire/access"
	"berth/shared/wire/transport"
)

// providerRows keeps capacity providers in memory.
type providerRows struct {
	rows     map[string]*cluster.CapacityProvider
	attached operation.ClusterAttachments
}

func (p *providerRows) CreateCapacityProvider(
	_ context.Context, row *cluster.CapacityProvider,
) (*cluster.CapacityProvider, error) {
	if p.rows == nil {
		p.rows = map[string]*cluster.CapacityProvider{}
	}
	row.UpdateStatus = cluster.ProviderCreated
	p.rows[row.Name] = row
	return row, nil
}

func (p *providerRows) provider(name string) (*cluster.CapacityProvider, error) {
	if row := p.rows[name]; row != nil {
		return row, nil
	}
	return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The specified capacity provider does not exist.")
}

func (p *providerRows) UpdateCapacityProvider(
	_ context.Context, c operation.UpdateCapacityProvider,
) (*cluster.CapacityProvider, error) {
	row, err := p.provider(c.Name)
	if err != nil {
		return nil, err
	}
	row.Scaling, err = c.Scaling.ApplyTo(row.Scaling)
	return row, err
}

func (p *providerRows) DeleteCapacityProvider(_ context.Context, name string) (*cluster.CapacityProvider, error) {
	row, err := p.provider(name)
	if err == nil {
		row.Inactive, row.UpdateStatus = true, cluster.ProviderDeleted
	}
	return row, err
}

func (p *providerRows) DescribeCapacityProviders(
	_ context.Context, names []string,
) (out []*cluster.CapacityProvider, missing []cluster.Failure, err error) {
	for name, row := range p.rows {
		if len(names) == 0 || slices.Contains(names, name) {
			out = append(out, row)
		}
	}
	for _, name := range names {
		if p.rows[name] == nil {
			missing = append(missing, cluster.Failure{ARN: name, Reason: "MISSING"})
		}
	}
	return out, missing, nil
}

func (p *providerRows) TagCapacityProvider(_ context.Context, name string, set map[string]string, _ []string) error {
	row, err := p.provider(name)
	if err == nil {
		row.Tags = set
	}
	return err
}

func (p *providerRows) CapacityProviderTags(_ context.Context, name string) (map[string]string, error) {
	row, err := p.provider(name)
	if err != nil {
		return nil, err
	}
	return row.Tags, nil
}

func (p *providerRows) PutClusterProviders(
	_ context.Context, _ string, names []string, strategy []cluster.ProviderShare,
) (*operation.ClusterAttachments, error) {
	p.attached = operation.ClusterAttachments{Attached: cluster.ClusterProviders{
		Head: cluster.Head{Rev: 1}, Providers: names, Default: strategy, Status: cluster.AttachmentsInProgress,
	}}
	for _, name := range names {
		p.attached.Rows = append(p.attached.Rows, p.rows[name])
	}
	return &p.attached, nil
}

func (p *providerRows) CheckClusterProviders(
	_ context.Context, _ string, names []string, _ []cluster.ProviderShare,
) error {
	for _, name := range names {
		if _, err := p.provider(name); err != nil {
			return err
		}
	}
	return nil
}

func (p *providerRows) ClusterAttachments(context.Context, string) (*operation.ClusterAttachments, error) {
	return &p.attached, nil
}

const groupARN = "arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:a1b2:autoScalingGroupName/my-group"

func createProvider(name, more string) string {
	return fmt.Sprintf(`{"name":%q,"autoScalingGroupProvider":{"autoScalingGroupArn":%q%s}}`, name, groupARN, more)
}

// updateProvider is createProvider for UpdateCapacityProvider, which cannot name another group.
func updateProvider(name, more string) string {
	return fmt.Sprintf(`{"name":%q,"autoScalingGroupProvider":{%s}}`, name, strings.TrimPrefix(more, ","))
}

// creating is ECS while it creates a cluster, with the request that it got.
type creating struct {
	sent   string
	status int
}

func (c *creating) Forward(_ context.Context, _ string, body []byte) (int, []byte, error) {
	c.sent = string(body)
	if c.status != 0 {
		return c.status, []byte(`{"__type":"ClientException","message":"no"}`), nil
	}
	return 200, []byte(`{"cluster":{"clusterName":"prod","status":"ACTIVE"}}`), nil
}

func TestCreateClusterWithCapacityProviders(t *testing.T) {
	const body = `{"clusterName":"prod","capacityProviders":["spot"],"defaultCapacityProviderStrategy":[{"capacityProvider":"spot","weight":1}]}`
	begin := func(t *testing.T) (*berth, *creating) {
		made := &creating{}
		b := newBerth(t, func(o *wire.ServerOptions) { o.ECS = made })
		if status, answer := b.mux.ServeOperation(t.Context(), "CreateCapacityProvider",
			[]byte(createProvider("spot", ""))); status != 200 {
			t.Fatalf("%s", answer)
		}
		return b, made
	}
	b, made := begin(t)
	status, answer := b.mux.ServeOperation(t.Context(), "CreateCluster", []byte(body))
	expect(t, "status", status, 200)
	expect(t, "sent to ECS", made.sent, `{"clusterName":"prod"}`)
	for _, text := range []string{`"clusterName":"prod"`, `"capacityProviders":["spot"]`,
		`"attachmentsStatus":"UPDATE_IN_PROGRESS"`, `"weight":1`} {
		if !strings.Contains(string(answer), text) {
			t.Errorf("no %s in %s", text, answer)
		}
	}
	t.Run("AnExistingOneKeepsItsOwn", func(t *testing.T) {
		again := strings.Replace(body, `["spot"]`, `[]`, 1)
		status, answer := b.mux.ServeOperation(t.Context(), "CreateCluster", []byte(again))
		if status != 200 || !strings.Contains(string(answer), `"capacityProviders":["spot"]`) {
			t.Errorf("%d %s", status, answer)
		}
	})
	t.Run("OneThatECSRefusesGetsNone", func(t *testing.T) {
		b, made := begin(t)
		made.status = 400
		_, code, _ := b.answered(t, "CreateCluster", body)
		expect(t, "code", code, "ClientException")
		expect(t, "version of its providers", b.scheduler.attached.Attached.Rev, int64(0))
	})
	t.Run("IsRefusedBeforeECSCreatesIt", func(t *testing.T) {
		b, made := begin(t)
		for text, body := range map[string]string{
			"does not exist":       strings.ReplaceAll(body, "spot", "none"),
			"cannot contain a mix": strings.Replace(body, `}]`, `},{"capacityProvider":"FARGATE"}]`, 1),
			"strategy contains multiple capacity providers with a base value defined": strings.Replace(body, `}]`,
				`,"base":1},{"capacityProvider":"other","base":1}]`, 1),
			"twice": strings.Replace(body, `["spot"]`, `["spot","spot"]`, 1),
		} {
			_, code, message := b.answered(t, "CreateCluster", body)
			if code != invalidParameter && code != notSupported || !strings.Contains(message, text) {
				t.Errorf("got %s: %s, want %q", code, message, text)
			}
		}
		expect(t, "sent to ECS", made.sent, "")
	})
}

func TestCapacityProviders(t *testing.T) {
	t.Run("DefaultsAreThoseOfECS", func(t *testing.T) {
		b := newBerth(t)
		status, answer := b.mux.ServeOperation(t.Context(), "CreateCapacityProvider",
			[]byte(createProvider("spot", "")))
		if status != 200 {
			t.Fatalf("%s", answer)
		}
		body := string(answer)
		for _, text := range []string{
			`"status":"ACTIVE"`, `"targetCapacity":100`, `"minimumScalingStepSize":1`, `"maximumScalingStepSize":10000`,
			`"instanceWarmupPeriod":300`,
			`"managedDraining":"ENABLED"`, `"managedTerminationProtection":"DISABLED"`,
			`"updateStatus":"CREATE_COMPLETE"`, `capacity-provider/spot`,
		} {
			if !strings.Contains(body, text) {
				t.Errorf("no %s in %s", text, body)
			}
		}
	})
	t.Run("ManagedScalingIsOnIfGiven", func(t *testing.T) {
		for more, want := range map[string]string{
			"": "DISABLED", `,"managedDraining":"DISABLED"`: "DISABLED",
			`,"managedScaling":{}`: "ENABLED", `,"managedScaling":{"targetCapacity":90}`: "ENABLED",
			`,"managedScaling":{"status":"DISABLED"}`: "DISABLED",
		} {
			b := newBerth(t)
			_, made := b.mux.ServeOperation(t.Context(), "CreateCapacityProvider", []byte(createProvider("spot", more)))
			_, same := b.mux.ServeOperation(t.Context(), "UpdateCapacityProvider", []byte(updateProvider("spot", "")))
			_, other := b.mux.ServeOperation(t.Context(), "UpdateCapacityProvider",
				[]byte(updateProvider("spot", `,"managedScaling":{"targetCapacity":80}`)))
			for what, answer := range map[string][]byte{"made": made, "updated without it": same,
				"updated without its status": other} {
				if !strings.Contains(string(answer), `"status":"`+want+`"`) {
					t.Errorf("made with %q, %s: no %s in %s", more, what, want, answer)
				}
			}
		}
	})
	t.Run("Refusals", func(t *testing.T) {
		for name, c := range map[string]struct{ op, body, code, text string }{
			"Name": {"CreateCapacityProvider", createProvider("a b", ""), invalidParameter, "name is invalid"},
			"Mix": {"PutClusterCapacityProviders", `{"cluster":"prod","capacityProviders":["a","FARGATE"],
				"defaultCapacityProviderStrategy":[{"capacityProvider":"a","weight":1},{"capacityProvider":"FARGATE"}]}`,
				invalidParameter, "cannot contain a mix"},
			"Elsewhere": {"PutClusterCapacityProviders", `{"cluster":"prod","capacityProviders":["a"],
				"defaultCapacityProviderStrategy":[{"capacityProvider":"` +
				`arn:aws:ecs:eu-west-1:210987654321:capacity-provider/a"}]}`, invalidParameter, "Your account is"},
			"NoGroup": {"CreateCapacityProvider", `{"name":"a"}`, invalidParameter, "autoScalingGroupProvider"},
			"GroupARN": {"CreateCapacityProvider",
				`{"name":"a","autoScalingGroupProvider":{"autoScalingGroupArn":"my-group"}}`, "ClientException",
				"ARN is not valid"},
			"GroupName": {"CreateCapacityProvider", strings.Replace(createProvider("a", ""), "my-group",
				strings.Repeat("g", 256), 1), "ClientException", "ARN is not valid"},
			"GroupID": {"CreateCapacityProvider", strings.Replace(createProvider("a", ""), "a1b2",
				strings.Repeat("a", 65), 1), "ClientException", "ARN is not valid"},
			"GroupPartition": {"CreateCapacityProvider", strings.Replace(createProvider("a", ""), "arn:aws:",
				"arn:other:", 1), "ClientException", "ARN is not valid"},
			"Target": {"CreateCapacityProvider", createProvider("a", `,"managedScaling":{"targetCapacity":101}`),
				invalidParameter, "targetCapacity is 101"},
			"Steps": {"CreateCapacityProvider", createProvider("a",
				`,"managedScaling":{"minimumScalingStepSize":5,"maximumScalingStepSize":4}`), invalidParameter,
				"less than or equal to the maximum"},
			"Status": {"CreateCapacityProvider", createProvider("a", `,"managedScaling":{"status":"ON"}`),
				invalidParameter, "managedScaling.status"},
			"Missing": {"UpdateCapacityProvider", updateProvider("none", ""), invalidParameter, "does not exist"},
			"NoList": {"PutClusterCapacityProviders", `{"cluster":"prod","capacityProviders":[]}`, invalidParameter,
				"defaultCapacityProviderStrategy must"},
			"Twice": {"PutClusterCapacityProviders",
				`{"cluster":"prod","capacityProviders":["a","a"],"defaultCapacityProviderStrategy":[]}`,
				invalidParameter, "twice"},
			"NoCluster": {"PutClusterCapacityProviders",
				`{"capacityProviders":[],"defaultCapacityProviderStrategy":[]}`, invalidParameter, "cluster"},
		} {
			t.Run(name, func(t *testing.T) {
				_, code, message := newBerth(t).answered(t, c.op, c.body)
				if code != c.code || !strings.Contains(message, c.text) {
					t.Errorf("got %s: %s, want %s with %q", code, message, c.code, c.text)
				}
			})
		}
	})
}

// A scaling policy is shown only if the group has one; otherwise Berth has alarms of its own.
func TestAttachmentsFailOneByOne(t *testing.T) {
	b := newBerth(t)
	for _, name := range []string{"spot", "unfit"} {
		b.scheduler.attached.Rows = append(b.scheduler.attached.Rows,
			&cluster.CapacityProvider{Name: name, Draining: true})
	}
	b.scheduler.attached.Attached = cluster.ClusterProviders{
		Head: cluster.Head{Rev: 1}, Providers: []string{"spot", "unfit"}, Detaching: []string{"gone"},
		Status:             cluster.AttachmentsFailed,
		AttachmentProblems: map[string]string{"unfit": "its group has no room", "gone": "AccessDenied: no"},
	}
	_, answer := b.mux.ServeOperation(t.Context(), "DescribeClusters",
		[]byte(`{"clusters":["prod"],"include":["ATTACHMENTS"]}`))
	var out struct {
		Clusters []struct {
			Attachments []struct {
				Type, Status string
				Details      []struct{ Name, Value string }
			}
		}
	}
	if err := json.Unmarshal(answer, &out); err != nil || len(out.Clusters) == 0 {
		t.Fatalf("%v: %s", err, answer)
	}
	hook := "{autoScalingLifecycleHookName " + cluster.DrainingHook + "}"
	expect(t, "attachments", fmt.Sprint(out.Clusters[0].Attachments), fmt.Sprintf("[%s %s %s]",
		"{managed_draining CREATED [{capacityProviderName spot} "+hook+"]}",
		"{managed_draining FAILED [{capacityProviderName unfit} "+hook+" {statusReason its group has no room}]}",
		"{capacity_provider FAILED [{capacityProviderName gone} {statusReason AccessDenied: no}]}"))
}

func TestAttachmentsShowOnlyAnExistingPolicy(t *testing.T) {
	for tracking, shown := range map[bool]bool{false: false, true: true} {
		b := newBerth(t, func(o *wire.ServerOptions) { o.ECS = new(creating) })
		p := &cluster.CapacityProvider{Name: "spot", Scaling: cluster.DefaultScaling}
		p.Scaling.Enabled, p.Scaling.TargetTracking = true, tracking
		b.scheduler.rows = map[string]*cluster.CapacityProvider{"spot": p}
		status, answer := b.mux.ServeOperation(t.Context(), "CreateCluster",
			[]byte(`{"clusterName":"prod","capacityProviders":["spot"]}`))
		expect(t, "status", status, 200)
		expect(t, "policy shown", strings.Contains(string(answer), `"as_policy"`), shown)
		expect(t, "name shown", strings.Contains(string(answer), cluster.ScalingPolicy("prod", "spot")), shown)
	}
}

// The providers of Fargate have no settings, no status of a change and no tags.
func TestFargateProvidersAreShown(t *testing.T) {
	b := newBerth(t)
	b.scheduler.rows = map[string]*cluster.CapacityProvider{"FARGATE_SPOT": {Name: "FARGATE_SPOT"}}
	_, answer := b.mux.ServeOperation(t.Context(), "DescribeCapacityProviders",
		[]byte(`{"capacityProviders":["FARGATE_SPOT"]}`))
	expect(t, "answer", string(answer), `{"capacityProviders":[{"capacityProviderArn":`+
		`"arn:aws:ecs:eu-west-1:123456789012:capacity-provider/FARGATE_SPOT","name":"FARGATE_SPOT","status":"ACTIVE",`+
		`"tags":[],"type":"FARGATE_SPOT"}],"failures":[]}`)
}

// The tags of managed scaling are settings of UpdateCapacityProvider: who may not call that may not
// change them either.
func TestScalingTagsNeedTheRightToManageNodeGroups(t *testing.T) {
	const writer, manager = "arn:aws:iam::123456789012:user/writer", "arn:aws:iam::123456789012:user/manager"
	var log bytes.Buffer
	b := newBerth(t, func(o *wire.ServerOptions) {
		o.Access = &access.Policy{Writers: []string{writer, manager}, NodeGroupManagers: []string{manager}}
		o.Audit = slog.New(slog.NewTextHandler(&log, nil))
	})
	as := func(principal, op, body string) string {
		_, answer := b.mux.ServeOperation(transport.WithPrincipal(t.Context(), principal), op, []byte(body))
		return string(answer)
	}
	as(manager, "CreateCapacityProvider", createProvider("p", ""))
	of := `{"resourceArn":"` + account.ARN("capacity-provider", "p") + `",`
	for _, c := range []struct {
		name, op, body string
		needs          bool
	}{
		{"Set", "TagResource", of + `"tags":[{"key":"a","value":"b"},{"key":"berth:scale-in-percent","value":"100"}]}`, true},
		{"Reset", "TagResource", of + `"tags":[{"key":"berth:consolidation","value":""}]}`, true},
		{"Removed", "UntagResource", of + `"tagKeys":["a","berth:replace-unregistered"]}`, true},
		{"OfTheirOwn", "TagResource", of + `"tags":[{"key":"team","value":"b"}]}`, false},
		{"OfTheirOwnRemoved", "UntagResource", of + `"tagKeys":["team"]}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			log.Reset()
			got := as(writer, c.op, c.body)
			expect(t, "refused: "+got, strings.Contains(got, "It needs the right to manage node groups"), c.needs)
			expect(t, "logged: "+log.String(), strings.Contains(log.String(), `"refused through the API" operation=`+
				c.op+" principal="+writer), c.needs)
			expect(t, "answer to a manager", as(manager, c.op, c.body), "{}")
		})
	}
}
