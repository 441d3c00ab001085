/** Colours by what they are for. Text and lines of each stand on `page` and on `raised`: a test computes their contrast. */
export interface Theme {
  readonly page: string;
  /** Of what lies on the page: code, the verdict, the marked row. */
  readonly raised: string;
  readonly ink: string;
  /** Of words that come second. */
  readonly muted: string;
  /** Of links and of what stands out. */
  readonly accent: string;
  /** Of edges and axes, and of the lines behind charts. */
  readonly rule: string;
  readonly grid: string;
  /** Of charts' lines and of their names, which differ in more than the colour. */
  readonly series: readonly string[];
}

export const LIGHT: Theme = {
  page: '#ffffff',
  raised: '#f4f5f7',
  ink: '#16191d',
  muted: '#565d66',
  accent: '#0b5cad',
  rule: '#868e98',
  grid: '#e6e8eb',
  series: ['#0b5cad', '#b0450c', '#17704a', '#7b3fa8', '#a61e57', '#5c5c00'],
};

export const DARK: Theme = {
  page: '#13161a',
  raised: '#1e2329',
  ink: '#eceef1',
  muted: '#a9b1bb',
  accent: '#84b9ff',
  rule: '#7d8691',
  grid: '#2a3037',
  series: ['#84b9ff', '#ffa36b', '#66d3a3', '#cfa8ff', '#ff95bd', '#d6cf5b'],
};

/** The declarations of a theme's colours, as CSS variables. */
export function variablesOf({ series, ...others }: Theme): string {
  const named = Object.entries(others).map(([name, colour]) => `--${name}:${colour}`);
  return [...named, ...series.map((colour, index) => `--series-${index + 1}:${colour}`)].join(';');
}
