package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/listing"
	"berth/cmd/berth/whatif"
)

// eventsCommand prints the events of a cluster's services, the oldest first. ECS keeps the last 100
// of each service.
type eventsCommand struct {
	clusterFlags
	Service []string      `help:"Only events of this service. Repeatable." placeholder:"NAME"`
	Contain string        `name:"containing" help:"Only events whose message has this text." placeholder:"TEXT"`
	Since   time.Duration `help:"Only events that are at most this old, such as 1h or 30m." placeholder:"DURATION"`
	Limit   int           `default:"100" help:"Print at most so many of the newest events."`
	Follow  bool          `short:"f" help:"Print new events as they come, until interrupted."`
	Every   time.Duration `default:"2s" help:"Time between two looks of --follow."`
	JSON    bool          `help:"Print JSON: one object per line."`
}

// Validate names the flag that is wrong.
func (c *eventsCommand) Validate() error {
	switch {
	case c.Limit < 1:
		return fmt.Errorf("--limit is %d, expected at least 1", c.Limit)
	case c.Every < 10*time.Millisecond:
		return fmt.Errorf("--every is %s, expected a time such as 2s", c.Every)
	case c.Since < 0:
		return errors.New("--since is negative, expected a duration such as 30m or 1h")
	}
	return c.clusterFlags.Validate()
}

// Run prints the events.
func (c *eventsCommand) Run(ctx context.Context, s *streams) error {
	api, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	// An event that is young enough at one look is printed at the next, so the age counts from the first.
	from, err := c.readFrom(ctx, api)
	if err != nil {
		return err
	}
	printed, limit := map[string]bool{}, c.Limit
	for again := (retries{log: s.err, every: c.Every}); ; {
		events, err := c.readEvents(ctx, api, from)
		if !again.goesOn(ctx, err) {
			return err
		}
		fresh := slices.DeleteFunc(events, func(e listing.Event) bool { return printed[e.ID] })
		for _, e := range fresh {
			printed[e.ID] = true
		}
		if err := c.printEvents(s.out, fresh[max(0, len(fresh)-limit):]); err != nil || !c.Follow {
			return err
		}
		limit = math.MaxInt
		if err := again.wait(ctx); err != nil {
			return err
		}
	}
}

// readFrom returns when the events that --since asks for begin, by the scheduler's clock.
func (c *eventsCommand) readFrom(ctx context.Context, api *client.Client) (from time.Time, err error) {
	if c.Since == 0 {
		return from, nil
	}
	now, err := whatif.ReadClock(ctx, api, c.Cluster)
	return now.Add(-c.Since), err
}

// readEvents reads the events since a time that the flags ask for, the oldest first.
func (c *eventsCommand) readEvents(
	ctx context.Context, api *client.Client, from time.Time,
) ([]listing.Event, error) {
	names := c.Service
	if len(names) == 0 {
		var err error
		if names, err = api.ServiceNames(ctx, c.Cluster); err != nil {
			return nil, err
		}
	}
	all, missing, err := api.ServiceEvents(ctx, c.Cluster, names)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 && len(c.Service) > 0 {
		known, err := api.ServiceNames(ctx, c.Cluster)
		return nil, errors.Join(err, &whatif.NotFound{Kind: "service", Name: missing[0], Known: known})
	}
	return slices.DeleteFunc(all, func(e listing.Event) bool {
		return !strings.Contains(e.Message, c.Contain) || e.At.Before(from)
	}), nil
}

func (c *eventsCommand) printEvents(w io.Writer, events []listing.Event) error {
	for _, e := range events {
		var err error
		if c.JSON {
			err = json.NewEncoder(w).Encode(e)
		} else {
			_, err = fmt.Fprintf(w, "%s  %s\n", e.At.Format(time.RFC3339), e.Message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
