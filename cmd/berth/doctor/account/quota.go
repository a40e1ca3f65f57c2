package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/cmd/berth/doctor"
)

// quotaReader reads quotas.
type quotaReader struct{ *services }

// readQuotas reads the quotas that concern the installation with what is used of them, and the
// sizes of its groups' instance types.
func (r *quotaReader) readQuotas(ctx context.Context, f *doctor.Facts) {
	ids, types := f.NeededQuotas()
	f.Quotas = map[doctor.QuotaID]doctor.Read[doctor.Quota]{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, id := range ids {
		wait.Go(func() {
			q, err := r.readQuota(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			f.Quotas[id] = resultOf(q, err)
		})
	}
	f.VCPUs = resultOf(r.readVCPUs(ctx, types))
	wait.Wait()
}

// usageMetric is the metric in which CloudWatch counts what is used of a quota.
type usageMetric struct {
	Namespace  string            `json:"MetricNamespace"`
	Name       string            `json:"MetricName"`
	Dimensions map[string]string `json:"MetricDimensions"`
	Statistic  string            `json:"MetricStatisticRecommendation"`
}

// readQuota reads a quota of the account, or AWS's value for it if the account has none of its own.
// What is used is read even if the quota may not be.
func (r *quotaReader) readQuota(ctx context.Context, id doctor.QuotaID) (q doctor.Quota, err error) {
	in := map[string]any{"ServiceCode": id.Service, "QuotaCode": id.Code}
	var out struct {
		Quota struct {
			Value       float64
			UsageMetric *usageMetric
		}
	}
	err = r.callJSON(ctx, serviceQuotas, "GetServiceQuota", in, &out)
	if errors.Is(err, doctor.ErrMissing) {
		err = r.callJSON(ctx, serviceQuotas, "GetAWSDefaultServiceQuota", in, &out)
	}
	q.Value = out.Quota.Value
	switch {
	case out.Quota.UsageMetric != nil && out.Quota.UsageMetric.Name != "":
		q.Used = resultOf(r.readUsage(ctx, out.Quota.UsageMetric))
	case id == doctor.LaunchTemplates:
		q.Used = resultOf(r.countLaunchTemplates(ctx))
	case id == doctor.NetworkInterfaces:
		q.Used = resultOf(r.countNetworkInterfaces(ctx))
	default:
		q.Used.Err = doctor.ErrNoDatapoint
	}
	return q, err
}

// usageWindow is how far back the last datapoint of a usage metric is looked for: EC2 publishes one
// in five minutes.
const usageWindow = 15 * time.Minute

// readUsage returns the newest value of a usage metric.
func (r *quotaReader) readUsage(ctx context.Context, m *usageMetric) (float64, error) {
	statistic := cmp.Or(m.Statistic, "Maximum")
	dimensions := []map[string]string{}
	for name, value := range m.Dimensions {
		dimensions = append(dimensions, map[string]string{"Name": name, "Value": value})
	}
	now := r.options.AWS.Now()
	var out struct {
		Datapoints []struct{ Timestamp, Maximum, Sum, Average float64 }
	}
	err := r.callJSON(ctx, cloudWatch, "GetMetricStatistics", map[string]any{"Namespace": m.Namespace,
		"MetricName": m.Name, "Statistics": []string{statistic}, "Period": 60, "Dimensions": dimensions,
		"StartTime": now.Add(-usageWindow).Unix(), "EndTime": now.Unix()}, &out)
	if err != nil {
		return 0, err
	}
	if len(out.Datapoints) == 0 {
		return 0, doctor.ErrNoDatapoint
	}
	newest := slices.MaxFunc(out.Datapoints, func(a, b struct{ Timestamp, Maximum, Sum, Average float64 }) int {
		return cmp.Compare(a.Timestamp, b.Timestamp)
	})
	return max(newest.Maximum, newest.Sum, newest.Average), nil
}

// countLaunchTemplates counts the launch templates of the Region.
func (r *quotaReader) countLaunchTemplates(ctx context.Context) (float64, error) {
	return countPages(func(in map[string]string) (int, string, error) {
		in["MaxResults"] = "200"
		var out struct {
			IDs  []string `xml:"launchTemplates>item>launchTemplateId"`
			Next string   `xml:"nextToken"`
		}
		err := r.callForm(ctx, ec2, "DescribeLaunchTemplates", in, &out)
		return len(out.IDs), out.Next, err
	})
}

// countNetworkInterfaces counts the network interfaces of the Region.
func (r *quotaReader) countNetworkInterfaces(ctx context.Context) (float64, error) {
	return countPages(func(in map[string]string) (int, string, error) {
		in["MaxResults"] = "1000"
		var out struct {
			IDs  []string `xml:"networkInterfaceSet>item>networkInterfaceId"`
			Next string   `xml:"nextToken"`
		}
		err := r.callForm(ctx, ec2, "DescribeNetworkInterfaces", in, &out)
		return len(out.IDs), out.Next, err
	})
}

// countPages counts the items of all pages of a list.
func countPages(read func(in map[string]string) (items int, next string, err error)) (float64, error) {
	n, in := 0, map[string]string{}
	for range maxPages {
		items, next, err := read(in)
		if err != nil {
			return 0, err
		}
		n += items
		if next == "" {
			return float64(n), nil
		}
		in = map[string]string{"NextToken": next}
	}
	return 0, fmt.Errorf("more than %d pages", maxPages)
}

// maxTypes is how many instance types one call describes.
const maxTypes = 100

// readVCPUs returns how many vCPUs instance types have.
func (r *quotaReader) readVCPUs(ctx context.Context, types []string) (map[string]int, error) {
	vcpus := map[string]int{}
	for some := range slices.Chunk(types, maxTypes) {
		in := map[string]string{}
		for n, t := range some {
			in["InstanceType."+strconv.Itoa(n+1)] = t
		}
		var out struct {
			Types []struct {
				Name  string `xml:"instanceType"`
				VCPUs int    `xml:"vCpuInfo>defaultVCpus"`
			} `xml:"instanceTypeSet>item"`
		}
		if err := r.callForm(ctx, ec2, "DescribeInstanceTypes", in, &out); err != nil {
			return nil, err
		}
		for _, t := range out.Types {
			vcpus[t.Name] = t.VCPUs
		}
	}
	return vcpus, nil
}
