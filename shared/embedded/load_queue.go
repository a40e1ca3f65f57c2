package embedded

// readQueueWiring reads a queue's properties, with SQS's defaults and bounds. It ignores what
// concerns only how SQS keeps messages.
func (s *section) readQueueWiring(id string) *QueueWiring {
	q := &QueueWiring{
		Name: id, Visibility: secondsToDuration(s.boundedNumber("VisibilityTimeout", 30, 0, 43_200)),
		Delay: secondsToDuration(s.boundedNumber("DelaySeconds", 0, 0, 900)),
	}
	if s.hasKey("RedrivePolicy") {
		redrive := s.childSection("RedrivePolicy")
		q.DeadLetters = redrive.resourceRef("deadLetterTargetArn", "Arn", typeQueue)
		q.MaxReceives = redrive.boundedNumber("maxReceiveCount", 0, 1, 1000)
		if q.MaxReceives == 0 {
			s.t.addError(redrive.keyPath("maxReceiveCount"), "must be a number from 1 to 1000")
		}
		redrive.rejectUnreadKeys()
	}
	s.rejectUnreadKeys("KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "MessageRetentionPeriod", "QueueName",
		"RedriveAllowPolicy",
		"SqsManagedSseEnabled", "Tags")
	return q
}

// readRuleWiring reads a rule of the default event bus, or of one of the template's. It reports
// false for one that is DISABLED.
func (s *section) readRuleWiring(id string) (RuleWiring, bool) {
	rule := RuleWiring{Name: id}
	if s.hasKey("EventBusName") {
		rule.Bus = s.resourceRef("EventBusName", "", typeBus)
	}
	if !s.hasKey("EventPattern") {
		s.t.addError(s.keyPath("EventPattern"), "is missing")
	} else if doc := s.resolvedValue("EventPattern"); doc != nil {
		var err error
		if rule.Pattern, err = compilePattern(doc); err != nil {
			s.t.addError(s.keyPath("EventPattern"), "%w", err)
		}
	}
	for i, n := range s.listNodes("Targets") {
		target := s.t.openSection(s.listItemPath("Targets", i), n)
		rule.Queues = append(rule.Queues, target.resourceRef("Arn", "Arn", typeQueue))
		target.rejectUnreadKeys("Id", "DeadLetterConfig", "RetryPolicy")
	}
	state := s.textValue("State")
	if state != "" && state != "ENABLED" && state != "DISABLED" {
		s.t.addError(s.keyPath("State"), "must be ENABLED or DISABLED, is %q", state)
	}
	s.rejectUnreadKeys("Description", "Name")
	return rule, state != "DISABLED"
}

// checkVisibility refuses a queue whose messages become visible again while the function may still
// handle them, as Lambda does. Two functions that read one queue would each get a part of the
// messages.
func (t *template) checkVisibility(w *Wiring) {
	readers := map[string]string{}
	for _, f := range w.Functions {
		for _, s := range f.Queues {
			q := w.Queues[s.Queue]
			switch {
			case q == nil: // an error already
			case q.Visibility < f.Timeout:
				t.addError("Resources."+s.Queue+".Properties.VisibilityTimeout", "is %s, but function %s may take %s",
					q.Visibility, f.LogicalID, f.Timeout)
			case readers[s.Queue] != "":
				t.addError("Resources."+s.Queue, "two functions read it: %s and %s", readers[s.Queue], f.LogicalID)
			}
			readers[s.Queue] = f.LogicalID
		}
	}
}
