package wire_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
)

// providerRows keeps capacity providers in memory.
type providerRows struct {
	rows     map[string]*cluster.CapacityProvider
	attached cluster.ClusterAttachments
}

func (p *providerRows) CreateCapacityProvider(_ context.Context, row *cluster.CapacityProvider) (*cluster.CapacityProvider, error) {
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

func (p *providerRows) UpdateCapacityProvider(_ context.Context, c cluster.ProviderChange) (*cluster.CapacityProvider, error) {
	row, err := p.provider(c.Name)
	if err != nil {
		return nil, err
	}
	row.Scaling, err = c.Scaling.Apply(row.Scaling)
	return row, err
}

func (p *providerRows) DeleteCapacityProvider(_ context.Context, name string) (*cluster.CapacityProvider, error) {
	row, err := p.provider(name)
	if err == nil {
		row.Inactive, row.UpdateStatus = true, cluster.ProviderDeleted
	}
	return row, err
}

func (p *providerRows) CapacityProviders(_ context.Context, names []string) (out []*cluster.CapacityProvider, missing []cluster.Failure, err error) {
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

func (p *providerRows) PutClusterProviders(_ context.Context, _ string, names []string, strategy []cluster.ProviderShare) (*cluster.ClusterAttachments, error) {
	p.attached = cluster.ClusterAttachments{ClusterProviders: cluster.ClusterProviders{
		Head: cluster.Head{Rev: 1}, Providers: names, Default: strategy, Status: cluster.AttachmentsInProgress,
	}}
	for _, name := range names {
		p.attached.Rows = append(p.attached.Rows, p.rows[name])
	}
	return &p.attached, nil
}

func (p *providerRows) Attachments(context.Context, string) (*cluster.ClusterAttachments, error) {
	return &p.attached, nil
}

const groupARN = "arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:a1b2:autoScalingGroupName/my-group"

func createProvider(name, more string) string {
	return fmt.Sprintf(`{"name":%q,"autoScalingGroupProvider":{"autoScalingGroupArn":%q%s}}`, name, groupARN, more)
}

func TestCapacityProviders(t *testing.T) {
	t.Run("DefaultsAreTheAPIs", func(t *testing.T) {
		b := newBerth(t)
		status, answer := b.mux.Serve(t.Context(), "CreateCapacityProvider", []byte(createProvider("spot", "")))
		if status != 200 {
			t.Fatalf("%s", answer)
		}
		body := string(answer)
		for _, text := range []string{
			`"status":"ACTIVE"`, `"targetCapacity":100`, `"minimumScalingStepSize":1`, `"maximumScalingStepSize":10000`, `"instanceWarmupPeriod":300`,
			`"managedDraining":"ENABLED"`, `"managedTerminationProtection":"DISABLED"`, `"updateStatus":"CREATE_COMPLETE"`, `capacity-provider/spot`,
		} {
			if !strings.Contains(body, text) {
				t.Errorf("no %s in %s", text, body)
			}
		}
	})
	t.Run("Refusals", func(t *testing.T) {
		for name, c := range map[string]struct{ op, body, code, text string }{
			"Name":      {"CreateCapacityProvider", createProvider("a b", ""), invalidParameter, "name is invalid"},
			"Fargate":   {"CreateCapacityProvider", createProvider("FARGATE", ""), notSupported, "FARGATE"},
			"NoGroup":   {"CreateCapacityProvider", `{"name":"a"}`, invalidParameter, "autoScalingGroupProvider"},
			"GroupARN":  {"CreateCapacityProvider", `{"name":"a","autoScalingGroupProvider":{"autoScalingGroupArn":"my-group"}}`, "ClientException", "ARN is not valid"},
			"Target":    {"CreateCapacityProvider", createProvider("a", `,"managedScaling":{"targetCapacity":101}`), invalidParameter, "targetCapacity is 101"},
			"Steps":     {"CreateCapacityProvider", createProvider("a", `,"managedScaling":{"minimumScalingStepSize":5,"maximumScalingStepSize":4}`), invalidParameter, "must not be above"},
			"Status":    {"CreateCapacityProvider", createProvider("a", `,"managedScaling":{"status":"ON"}`), invalidParameter, "managedScaling.status"},
			"Missing":   {"UpdateCapacityProvider", createProvider("none", ""), invalidParameter, "does not exist"},
			"NoList":    {"PutClusterCapacityProviders", `{"cluster":"prod","capacityProviders":[]}`, invalidParameter, "defaultCapacityProviderStrategy must"},
			"Twice":     {"PutClusterCapacityProviders", `{"cluster":"prod","capacityProviders":["a","a"],"defaultCapacityProviderStrategy":[]}`, invalidParameter, "twice"},
			"NoCluster": {"PutClusterCapacityProviders", `{"capacityProviders":[],"defaultCapacityProviderStrategy":[]}`, invalidParameter, "cluster"},
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
