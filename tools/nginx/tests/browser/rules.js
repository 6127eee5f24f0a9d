// Plays over a link in virtual time, with the decisions of dash.js: its AbrController, ThroughputController and rules as
// they are in the distribution. What surrounds them in a player is below: a buffer, a clock and a link that carries one
// request at a time. `levels(case)` returns the level of each segment; tools/dash/examples/levels.rs does the same with
// the rules of mpq-dash.
//
// A case: rule (rate, bola, dynamic or l2a), ladder_bps, segment_s, segments, rtt_s, and trace: [lasts_s, bit/s] in turn, the
// last one for ever.
function levels(one) {
    // A player's making adds its events to those that rules listen to.
    dashjs.MediaPlayer().create();
    var factory = dashjs.FactoryMaker;
    var context = {};
    function singleton(name) { return factory.getSingletonFactoryByName(name)(context).getInstance(); }

    var settings = singleton("Settings");
    settings.update({
        debug: { logLevel: dashjs.Debug.LOG_LEVEL_ERROR },
        streaming: { abr: { rules: {
            throughputRule: { active: one.rule === "rate" || one.rule === "dynamic" },
            bolaRule: { active: one.rule === "bola" || one.rule === "dynamic" },
            l2ARule: { active: one.rule === "l2a" },
            insufficientBufferRule: { active: one.rule === "dynamic" },
            switchHistoryRule: { active: one.rule === "dynamic" },
        } } },
    });
    // It writes to the console what goes wrong, which the test reads.
    factory.getSingletonFactoryByName("Debug")(context).getInstance({ settings: settings });
    var buffer = settings.get().streaming.buffer;

    // The clock that dash.js reads, ms.
    var now = 1e12;
    var realNow = Date.now;
    Date.now = function () { return now; };

    var streamInfo = { id: "stream", index: 0, manifestInfo: { isDynamic: false } };
    var mediaInfo = { id: "video", index: 0, type: "video", streamInfo: streamInfo };
    var representations = one.ladder_bps.map(function (bps, i) {
        return {
            id: "level-" + i, index: i, absoluteIndex: i, bandwidth: bps, bitrateInKbit: bps / 1000,
            mediaInfo: mediaInfo, fragmentDuration: one.segment_s, segmentDuration: one.segment_s,
        };
    });
    var current = representations[0];
    var level_s = 0;
    var state = "bufferStalled";
    var delay_ms = 0;
    var playback = {
        getIsDynamic: function () { return false; },
        getLowLatencyModeEnabled: function () { return false; },
    };
    var schedule = {
        setTimeToLoadDelay: function (ms) { delay_ms = ms; },
        getPlaybackController: function () { return playback; },
    };
    var request = null;
    var metrics = {
        getCurrentHttpRequest: function () { return request; },
        getCurrentBufferLevel: function () { return level_s; },
        getCurrentBufferState: function () { return { state: state }; },
    };
    var model = {
        getBufferTimeDefault: function () { return buffer.bufferTimeDefault; },
        getAbrBitrateParameter: function () { return -1; },
    };
    var processor = {
        getStreamInfo: function () { return streamInfo; },
        getScheduleController: function () { return schedule; },
        getRepresentation: function () { return current; },
        getLastSegment: function () { return null; },
        getRepresentationController: function () {
            return {
                getCurrentRepresentation: function () { return current; },
                getCurrentCompositeRepresentation: function () { return current; },
            };
        },
    };

    var bus = singleton("EventBus");
    var throughput = singleton("ThroughputController");
    throughput.setConfig({ settings: settings, playbackController: playback });
    throughput.initialize();
    var abr = singleton("AbrController");
    abr.setConfig({
        settings: settings, throughputController: throughput, mediaPlayerModel: model, dashMetrics: metrics,
        customParametersModel: { getAbrCustomRules: function () { return []; } },
        adapter: {
            getVoRepresentations: function () { return representations; },
            areMediaInfosEqual: function () { return true; },
        },
        domStorage: { setSavedBitrateSettings: function () {} },
        capabilities: { areKeyIdsUsable: function () { return true; } },
        videoModel: {
            getPlaybackRate: function () { return 1; },
            getPlaybackQuality: function () { return null; },
        },
        streamController: { getActiveStreamInfo: function () { return streamInfo; } },
    });
    abr.initialize();
    abr.registerStreamType("video", processor);
    var events = dashjs.MediaPlayer.events;
    bus.on(events.QUALITY_CHANGE_REQUESTED, function (event) { current = event.newRepresentation; });

    var playing = false;
    // Lets the buffer play; what it lacks is a stall.
    function pass(ms) {
        now += ms;
        if (!playing) { return; }
        level_s -= ms / 1000;
        if (level_s <= 0) {
            level_s = 0;
            playing = false;
            state = "bufferStalled";
            bus.trigger(events.BUFFER_EMPTY, { mediaType: "video", streamId: "stream" });
        }
    }
    function told() {
        bus.trigger(events.METRIC_ADDED, {
            metric: "BufferLevel", mediaType: "video", value: { level: 1000 * level_s },
        });
    }

    // Time, ms, that a body takes that begins to flow at `from`, ms since the beginning.
    function flow(from, bits) {
        var end = 0, at = from;
        for (var i = 0; i < one.trace.length; i++) {
            end = i + 1 < one.trace.length ? end + 1000 * one.trace[i][0] : Infinity;
            if (at >= end) { continue; }
            var part = (end - at) * one.trace[i][1] / 1000;
            if (part >= bits) { return at + 1000 * bits / one.trace[i][1] - from; }
            bits -= part;
            at = end;
        }
    }

    var began = now;
    var chosen = [];
    try {
        for (var number = 0; number < one.segments; number++) {
            // ScheduleController: what is asked for has to fit below the target of the level at hand.
            var isTop = current === representations[representations.length - 1];
            var target_s = isTop ? buffer.bufferTimeAtTopQuality : buffer.bufferTimeDefault;
            if (level_s + one.segment_s > target_s) { pass(1000 * (level_s + one.segment_s - target_s)); }
            told();
            delay_ms = 0;
            abr.checkPlaybackQuality("video", "stream");
            pass(delay_ms);
            chosen.push(current.absoluteIndex);

            var asked = now;
            var bits = current.bandwidth * one.segment_s;
            var first = asked + 1000 * one.rtt_s;
            var took = flow(first - began, bits);
            pass(1000 * one.rtt_s + took);
            var date = function (ms) { return { getTime: function () { return ms; } }; };
            request = {
                type: "MediaSegment", url: "segment-" + number, _streamId: "stream",
                trequest: date(asked), tresponse: date(first), _tfinish: date(now),
                trace: [{ d: 1000 * one.rtt_s, b: [0] }, { d: took, b: [bits / 8] }],
                _resourceTimingValues: {
                    transferSize: bits / 8, decodedBodySize: bits / 8, responseStart: first, responseEnd: now,
                },
            };
            bus.trigger(events.METRIC_ADDED, { metric: "HttpList", mediaType: "video", value: request });
            bus.trigger("mediaFragmentLoaded", {
                streamId: "stream",
                chunk: { start: number * one.segment_s, duration: one.segment_s, representation: current },
            });
            level_s += one.segment_s;
            playing = true;
            state = "bufferLoaded";
            bus.trigger("bytesAppendedEndFragment", { startTime: number * one.segment_s, mediaType: "video" });
            told();
        }
    } finally {
        Date.now = realNow;
        abr.reset();
        throughput.reset();
        factory.deleteSingletonInstances(context);
    }
    return chosen;
}
