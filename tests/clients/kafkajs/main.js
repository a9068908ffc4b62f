// kafkajs. Usage: main.js BOOTSTRAP SCENARIO; prints one line of JSON: scenario, result (pass or fail), detail. What a scenario has
// to show stands in ../matrix.json. kafkajs reads only as a member of a group.

'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, logLevel, PartitionAssigners, ConfigResourceTypes } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
const zstd = new Promise(resolve => ZstdCodec.run(codec => resolve(new codec.Streaming())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async buffer => Buffer.from((await zstd).decompress(buffer)),
})

const PATIENCE_MS = 40_000
const LARGEST = 12_000_000
const NOW = Date.now() - 3_600_000
const [bootstrap, scenario] = process.argv.slice(2)
const topic = `${scenario}-${Date.now()}`
const kafka = new Kafka({
  clientId: 'matrix',
  brokers: [bootstrap],
  retry: { retries: 2, initialRetryTime: 100 },
  logCreator: () => ({ label, log }) => console.error(label, log.message, log.error || ''),
  logLevel: logLevel.INFO,
})
const admin = kafka.admin()

function check(condition, text) {
  if (!condition) throw new Error(text)
}

async function until(what, ready) {
  const deadline = Date.now() + PATIENCE_MS
  while (!(await ready())) {
    check(Date.now() < deadline, `not within ${PATIENCE_MS} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

function code(error) {
  if (!error) return undefined
  if (typeof error.code === 'number' && error.code > 0) return error.code
  for (const inner of [error.cause, ...(error.errors || []), ...(error.groups || []).map(group => group.error)]) {
    const found = code(inner)
    if (found !== undefined) return found
  }
  for (const group of error.groups || []) if (group.errorCode > 0) return group.errorCode
  return undefined
}

async function refused(act) {
  try {
    await act()
  } catch (error) {
    const found = code(error)
    check(found !== undefined, `no error of the broker: ${error.stack}`)
    return found
  }
  throw new Error('not refused')
}

const record = (partition, key, value, headers = {}, timestamp = NOW) => ({ partition, key, value, headers, timestamp: `${timestamp}` })

function sample(count, partitions = 1) {
  const made = []
  for (let n = 0; n < count; n++) {
    const key = n % 10 === 9 ? null : `key-${n % 7}`
    const value = n % 10 === 7 ? null : n % 10 === 8 ? '' : `value-${n}-${'x'.repeat(n % 500)}`
    made.push(record(n % partitions, key, value, { n: [`${n}`, 'again'], empty: '' }, NOW + n * 1000))
  }
  return made
}

async function create(numPartitions, settings = {}) {
  const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ topics: [{ topic, numPartitions, configEntries }], waitForLeaders: true })
}

async function produce(messages, { codec = CompressionTypes.None, ...how } = {}) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...how })
  await producer.connect()
  try {
    await producer.send({ topic, messages, compression: codec, acks: -1 })
  } finally {
    await producer.disconnect()
  }
}

class Member {
  constructor(groupId = topic) {
    this.records = []
    this.held = []
    this.next = new Map()
    this.consumer = kafka.consumer({
      groupId,
      sessionTimeout: 10_000,
      heartbeatInterval: 500,
      rebalanceTimeout: 10_000,
      maxBytesPerPartition: LARGEST,
      maxBytes: 2 * LARGEST,
      maxWaitTimeInMs: 200,
      allowAutoTopicCreation: false,
      partitionAssigners: [PartitionAssigners.roundRobin],
    })
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.held = payload.memberAssignment[topic] || []
    })
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => {
      this.failure = payload.error
    })
  }

  async start() {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [topic], fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        this.records.push({ partition, ...message })
        this.next.set(partition, `${BigInt(message.offset) + 1n}`)
      },
    })
    return this
  }

  async read(count) {
    await until(`${count} records`, () => this.records.length >= count || this.failure)
    await new Promise(resolve => setTimeout(resolve, 400))
    check(!this.failure, `member: ${this.failure && this.failure.stack}`)
    check(this.records.length === count, `read ${this.records.length} records instead of ${count}`)
    return this.records
  }

  commit() {
    return this.consumer.commitOffsets([...this.next].map(([partition, offset]) => ({ topic, partition, offset })))
  }

  close() {
    return this.consumer.disconnect()
  }
}

async function settled(each, ...members) {
  await until(`${each} partitions each`, () => {
    for (const member of members) check(!member.failure, `member: ${member.failure && member.failure.stack}`)
    const all = new Set(members.flatMap(member => member.held))
    return members.every(member => member.held.length === each) && all.size === each * members.length
  })
}

const bytes = value => (value === null || value === undefined ? null : Buffer.from(value).toString('latin1'))

function headers(all) {
  const entries = Object.entries(all || {}).map(([name, value]) => [name, [].concat(value).map(bytes)])
  return JSON.stringify(entries)
}

// What was read is what was sent to each partition, in order, from offset 0 on.
function same(sent, got) {
  check(sent.length === got.length, `${got.length} of ${sent.length} records`)
  for (const partition of new Set(sent.map(r => r.partition))) {
    const wanted = sent.filter(r => r.partition === partition)
    const seen = got.filter(r => r.partition === partition)
    wanted.forEach((a, n) => {
      const b = seen[n]
      check(b && b.offset === `${n}`, `partition ${partition}: offset ${b && b.offset} instead of ${n}`)
      check(bytes(a.key) === bytes(b.key), `record ${n}: key ${b.key}`)
      check(bytes(a.value) === bytes(b.value), `record ${n}: value ${bytes(b.value)} instead of ${a.value}`)
      check(a.timestamp === b.timestamp, `record ${n}: timestamp ${b.timestamp}`)
      check(headers(a.headers) === headers(b.headers), `record ${n}: headers ${headers(b.headers)}`)
    })
  }
}

async function roundTrip(messages, partitions = 1, how = {}) {
  await create(partitions)
  await produce(messages, how)
  const member = await new Member().start()
  same(messages, await member.read(messages.length))
  await member.close()
}

const codec = type => () => roundTrip(sample(200), 1, { codec: type })

async function committed() {
  const [found] = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  return JSON.stringify(found.partitions.map(p => [p.partition, p.offset]).sort())
}

const isListed = async () => (await admin.listGroups()).groups.some(group => group.groupId === topic)

const described = async () => (await admin.describeGroups([topic])).groups[0]

async function readAll() {
  await create(1)
  await produce(sample(20))
  const member = await new Member().start()
  await member.read(20)
  await member.commit()
  return member
}

async function setting() {
  const found = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }], includeSynonyms: false })
  return found.resources[0].configEntries.find(entry => entry.configName === 'retention.ms').configValue
}

const scenarios = {
  version: async () => require('kafkajs/package.json').version,
  records: () => roundTrip(sample(40)),
  codec_gzip: codec(CompressionTypes.GZIP),
  codec_snappy: codec(CompressionTypes.Snappy),
  codec_lz4: codec(CompressionTypes.LZ4),
  codec_zstd: codec(CompressionTypes.ZSTD),
  zero_byte: () => roundTrip([record(0, '', '', { empty: '' }), record(0, null, ''), record(0, '', null)]),
  null_record: () => roundTrip([record(0, null, null), record(0, 'k', 'v'), record(0, null, null)]),
  large: () => roundTrip([record(0, 'k', 'small'), record(0, 'large', '0123456789abcdef'.repeat((10 * 1024 * 1024) / 16)), record(0, 'k', 'small')]),
  idempotent: () => roundTrip(sample(600, 3), 3, { idempotent: true, maxInFlightRequests: 1 }),

  async seek_time() {
    await create(1)
    await produce(sample(40))
    // Where there is none, kafkajs gives the end.
    for (const [timestamp, wanted] of [[1, '0'], [NOW + 20_000, '20'], [NOW + 20_001, '21'], [NOW + 40_000, '40']]) {
      const [found] = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
      check(found.offset === wanted, `offset ${found.offset} instead of ${wanted}`)
    }
    const member = await new Member().start()
    await member.read(40)
    member.consumer.seek({ topic, partition: 0, offset: '21' })
    const again = (await member.read(59)).slice(40)
    check(again[0].offset === '21', `reading went on at ${again[0].offset}`)
    await member.close()
  },

  async pause_resume() {
    await create(2)
    const member = await new Member().start()
    await settled(2, member)
    member.consumer.pause([{ topic, partitions: [0] }])
    // What was asked for before may still arrive.
    await new Promise(resolve => setTimeout(resolve, 1000))
    await produce(sample(40, 2))
    check((await member.read(20)).every(r => r.partition === 1), 'a record of a partition that is paused')
    member.consumer.resume([{ topic, partitions: [0] }])
    const resumed = (await member.read(40)).slice(20)
    check(resumed[0].partition === 0 && resumed[0].offset === '0', 'resumed elsewhere')
    await member.close()
  },

  async group() {
    await create(4)
    const first = await new Member().start()
    await settled(4, first)
    const second = await new Member().start()
    await settled(2, first, second)
    const sent = sample(100, 4)
    await produce(sent)
    await until('100 records', () => first.records.length + second.records.length >= 100)
    check(first.records.length > 0 && second.records.length > 0, 'one member read all')
    same(sent, [...first.records, ...second.records])
    for (const member of [first, second]) await member.commit()
    for (const member of [first, second]) await member.close()
    const wanted = JSON.stringify([0, 1, 2, 3].map(partition => [partition, '25']))
    check((await committed()) === wanted, `committed ${await committed()}`)
    const third = await new Member().start()
    await settled(4, third)
    await produce([0, 1, 2, 3].map(partition => record(partition, 'k', 'more')))
    check((await third.read(4)).every(r => r.offset === '25'), 'the group went on elsewhere')
    await third.close()
  },

  async group_describe() {
    await create(4)
    const member = await new Member().start()
    await settled(4, member)
    check(await isListed(), 'not listed')
    let group = await described()
    check(group.state === 'Stable' && group.members.length === 1, JSON.stringify(group))
    check(group.members[0].clientId === 'matrix', group.members[0].clientId)
    await member.close()
    group = await described()
    check(group.state === 'Empty' && group.members.length === 0, JSON.stringify(group))
  },

  async group_reset() {
    await (await readAll()).close()
    check((await committed()) === '[[0,"20"]]', `committed ${await committed()}`)
    await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '5' }] })
    check((await committed()) === '[[0,"5"]]', `set back to ${await committed()}`)
    const member = await new Member().start()
    check((await member.read(15))[0].offset === '5', 'began elsewhere')
    await member.close()
  },

  async group_delete() {
    const member = await readAll()
    const found = await refused(() => admin.deleteGroups([topic]))
    check(found === 68, `a group with a member: ${found} instead of NON_EMPTY_GROUP`)
    await member.close()
    await admin.deleteGroups([topic])
    check(!(await isListed()), 'still listed')
  },

  async topics() {
    const partitions = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
    await create(3)
    check((await admin.listTopics()).includes(topic), 'not listed')
    check((await partitions()) === 3, 'partitions')
    // createTopics gives false for a topic that exists, and hides the broker's error.
    check(!(await admin.createTopics({ topics: [{ topic, numPartitions: 3 }] })), 'a second of the name')
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    // What is changed may be seen a little later.
    await until('5 partitions', async () => (await partitions()) === 5)
    await admin.deleteTopics({ topics: [topic] })
    await until('no longer listed', async () => !(await admin.listTopics()).includes(topic))
  },

  // Only AlterConfigs exists, which replaces all settings of the topic.
  async configs() {
    await create(1, { 'retention.ms': '7200000' })
    check((await setting()) === '7200000', 'as created')
    const alter = configEntries => admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
    await alter([{ name: 'retention.ms', value: '3600000' }])
    check((await setting()) === '3600000', 'as altered')
    await alter([{ name: 'max.message.bytes', value: '2000' }])
    check((await setting()) === '604800000', 'the default is back')
  },

  error_unknown_topic: () => refused(() => admin.deleteTopics({ topics: [topic] })),

  async error_too_large() {
    await create(1, { 'max.message.bytes': '1000' })
    return refused(() => produce([record(0, 'k', 'x'.repeat(5000))]))
  },

  error_invalid_config: () => refused(() => create(1, { 'retention.ms': 'banana' })),

  // The runner has filled the smallest of devices, with a topic `filler`.
  async error_disk_full() {
    await create(1)
    const send = () => produce([record(0, 'k', 'v')])
    const started = Date.now()
    const found = await refused(send)
    check(Date.now() - started < 10_000, 'an application hears of it late')
    await admin.deleteTopics({ topics: ['filler'] })
    await until('room after a deletion', async () => {
      try {
        await send()
        return true
      } catch (error) {
        check(code(error) === found, error.stack)
        return false
      }
    })
    return found
  },

  async error_transactional() {
    await create(1)
    const producer = kafka.producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true })
    await producer.connect()
    return refused(() => producer.transaction())
  },
}

async function main() {
  const said = { scenario, result: 'fail', detail: '' }
  try {
    await admin.connect()
    said.detail = `${(await scenarios[scenario]()) || ''}`
    said.result = 'pass'
  } catch (error) {
    console.error(error)
    said.detail = `${error.name}: ${error.message}`
  }
  // What has failed may keep connections open.
  process.stdout.write(`${JSON.stringify(said)}\n`, () => process.exit(said.result === 'pass' ? 0 : 1))
}

main()
