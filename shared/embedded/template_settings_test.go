package embedded_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/shared/handler"
)

// The defaults of the template's parameters must be those that the code has without a template.
func TestTemplateDefaultsAreTheCodesDefaults(t *testing.T) {
	s := handler.DefaultSettings()
	p := shipped(t, nil).Parameters
	for name, want := range map[string]float64{
		"SettleSeconds":      s.Settle.Seconds(),
		"KeepStoppedSeconds": s.KeepStopped.Seconds(), "KeepRequestsSeconds": s.KeepRequests.Seconds(),
		"RequestWaitSeconds": s.RequestWait.Seconds(), "RequestPollSeconds": s.RequestPoll.Seconds(),
		"SettleHealthySeconds": s.StabilizeFor.Seconds(), "RestartGapSeconds": s.RestartGap.Seconds(),
		"LostAfterSeconds": s.DisconnectTimeout.Seconds(), "UpgradeDomainWaitSeconds": s.UpgradeDomainWait.Seconds(),
		"ProviderFallbackSeconds": s.ProviderFallback.Seconds(),
		"WavePercent":             float64(s.ReplacePercent), "UnhealthySharePercent": float64(s.MaxUnhealthyPercent),
		"RecheckSeconds": s.RetryInterval.Seconds(), "RecheckMaxSeconds": s.RetryIntervalMax.Seconds(),
		"ProvisioningLimit": float64(s.ProvisioningLimit), "ServiceLimit": float64(s.ServiceLimit),
		"StartRate": s.StartRate, "ProvisioningTimeoutSeconds": s.ProvisioningTimeout.Seconds(),
		"StartBurst": s.StartBurst,
	} {
		if got, err := strconv.ParseFloat(p[name], 64); err != nil || got != want {
			t.Errorf("%s is %q (%v), the code has %v", name, p[name], err, want)
		}
	}
	var ladder []string
	for _, d := range s.BackoffLadder {
		ladder = append(ladder, strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
	}
	if got, want := p["ThrottleLadderSeconds"], strings.Join(ladder, ","); got != want {
		t.Errorf("ThrottleLadderSeconds is %q, the code has %q", got, want)
	}
	if got, want := p["PublishEvents"], strconv.FormatBool(s.PublishEvents); got != want {
		t.Errorf("PublishEvents is %q, the code has %q", got, want)
	}
	if s.RequestWait > 25*time.Second {
		t.Error("the API function times out before it stops waiting")
	}
}
